#!lua
-- Token bucket in whole numbers, packed as three doubles: level (tokens times scale), scale, instant.
-- One microsecond refills `rate` of the level, so no fraction is ever lost. A negative cost gives tokens back.
local call, find, format = redis.call, string.find, string.format
local MAX = 9007199254740992
local capacity, rate, period, cost, now, more = unpack(ARGV, 1, 6)
if #KEYS ~= 1 or not period or more or capacity == '' or rate == '' or period == '' then
  return redis.error_reply('RLCTL_ARG token_bucket wants one key and capacity, rate, period_ms, cost, now_us')
end
if #KEYS[1] + #capacity + #rate + #period + #(cost or '') + #(now or '') > 4096 then
  return redis.error_reply('RLCTL_ARG key and arguments are longer than 4096 bytes')
end
if not now or now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
elseif not find(now, '^%d+$') then
  return redis.error_reply('RLCTL_ARG now_us is not a whole number')
else
  now = now + 0
end
local back
if not find(capacity .. rate .. period .. (cost or ''), '^%d+$') then
  back = cost and find(cost, '^%-[1-9]%d*$') and find(capacity .. rate .. period, '^%d+$') and -cost
  if not back then return redis.error_reply('RLCTL_ARG capacity, rate, period_ms and cost are whole numbers') end
  cost = 0
end
cost = (not cost or cost == '') and 1 or cost + 0
capacity, rate, period = capacity + 0, rate + 0, period * 1000
if rate == 0 or period == 0 then
  return redis.error_reply('RLCTL_ARG rate and period_ms are at least 1')
end
if rate >= MAX or period >= MAX or cost >= MAX or now >= MAX or (back or 0) >= MAX then
  return redis.error_reply('RLCTL_ARG numbers too large to be exact')
end
local a, b = period, rate
while b > 0 do a, b = b, a % b end
rate, period = rate / a, period / a
local full = capacity * period
if full + rate >= MAX then return redis.error_reply('RLCTL_ARG numbers too large to be exact') end

local key = KEYS[1]
local stored = call('GET', key)
local level, scale, last = full, period, now
local clamped = false
if stored then
  if #stored ~= 24 then return redis.error_reply('RLCTL_STATE not a bucket: ' .. key) end
  level, scale, last = struct.unpack('<ddd', stored)
  if not (level >= 0 and level < MAX and scale >= 1 and scale < MAX and last >= 0 and last < MAX)
    or level % 1 + scale % 1 + last % 1 > 0 then
    return redis.error_reply('RLCTL_STATE not a bucket: ' .. key)
  end
  if scale ~= period then
    -- Another rule: floor(level * period / scale), digit by digit where the product would not be exact.
    local whole = (level - level % scale) / scale
    local rest, base, quotient, carry = level % scale, 1048576, 0, 0
    while base > 2 and 2 * scale * base >= MAX do base = base / 2 end
    local digits, left = {}, period
    while left > 0 do
      digits[#digits + 1] = left % base
      left = (left - left % base) / base
    end
    for i = #digits, 1, -1 do
      local sum = carry * base + rest * digits[i]
      carry = sum % scale
      quotient = quotient * base + (sum - carry) / scale
    end
    level = whole >= capacity and full or whole * period + quotient
  end
  if level > full then level = full end
  if last > now then
    -- Waited for as long as an empty bucket takes to fill; a larger step would lock out for as long as it is.
    if (last - now) * rate <= full then now = last else clamped = true end
  else
    local missing = full - level
    local elapsed = now - last
    if elapsed * rate >= missing then level = full else level = level + elapsed * rate end
  end
end

if back and stored then level = back * period < full - level and level + back * period or full end
local price = cost * period
if capacity > 0 and price <= level then
  if cost > 0 then
    level = level - price
    local reset = full - level + rate - 1
    reset = (reset - reset % rate) / rate + 999
    reset = (reset - reset % 1000) / 1000
    call('SET', key, struct.pack('<ddd', level, period, now), 'PX', format('%d', reset + 1000))
    return {1, capacity, (level - level % period) / period, 0, reset, 0}
  end
end
local reset = full - level + rate - 1
reset = (reset - reset % rate) / rate + 999
reset = (reset - reset % 1000) / 1000
local tokens = (level - level % period) / period
if back and stored and capacity > 0 then
  call('SET', key, struct.pack('<ddd', level, period, now), 'PX', format('%d', reset + 1000))
end
if cost == 0 and capacity > 0 then return {1, capacity, tokens, 0, reset, 0} end
if clamped and capacity > 0 then
  call('SET', key, struct.pack('<ddd', level, period, now), 'PX', format('%d', reset + 1000))
end
if cost > capacity or capacity == 0 then return {0, capacity, tokens, -1, reset, 3} end
local wait = price - level + rate - 1
wait = (wait - wait % rate) / rate + 999
return {0, capacity, tokens, (wait - wait % 1000) / 1000, reset, 1}
