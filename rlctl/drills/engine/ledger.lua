#!lua
-- One atomic step: the shipped decision, its counter, and the operation's id in a ledger of the same slot.
-- The decision runs first and unchanged; an error of it leaves no entry.
local ledger, id = KEYS[2], ARGV[#ARGV]
local function decide(KEYS, ARGV)
--[[shipped script]]
end
local reply = decide({KEYS[1]}, {unpack(ARGV, 1, #ARGV - 1)})
if reply.err then return reply end
redis.call('RPUSH', ledger, id .. (reply[1] == 1 and '+' or '-'))
return reply
