-- Scripts run inside Redis: Lua 5.1 without files, modules and clocks, and with what Redis adds.
std = "lua51"
not_globals = {
    "arg", "debug", "dofile", "getfenv", "io", "loadfile", "module", "newproxy", "os", "package", "print", "require", "setfenv",
}
read_globals = {"redis", "struct", "cjson", "bit", "KEYS", "ARGV"}

-- Released, and their SHA1 pinned in lua/released.txt: they give two variables a value that every branch replaces.
for _, version in ipairs {"1.0.0", "1.0.1"} do
    files["lua/token_bucket-" .. version .. ".lua"] = {ignore = {"311/last", "311/scale"}}
end
