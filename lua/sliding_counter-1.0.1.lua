#!lua
-- Sliding window counter, packed as three doubles: start of this window, its count, the last one's count.
-- previous * (window - elapsed) + (current + cost) * window <= limit * window, compared without rounding.
-- A negative cost takes as much off this window's count, then off the last one's.
local call, find, format = redis.call, string.find, string.format
local MAX = 9007199254740992
local limit, window, cost, now, more = unpack(ARGV, 1, 5)
if #KEYS ~= 1 or not window or more or limit == '' or window == '' then
  return redis.error_reply('RLCTL_ARG sliding_counter wants one key and limit, window_ms, cost, now_us')
end
if #KEYS[1] + #limit + #window + #(cost or '') + #(now or '') > 4096 then
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
if not find(limit .. window .. (cost or ''), '^%d+$') then
  back = cost and find(cost, '^%-[1-9]%d*$') and find(limit .. window, '^%d+$') and -cost
  if not back then return redis.error_reply('RLCTL_ARG limit, window_ms and cost are whole numbers') end
  cost = 0
end
cost = (not cost or cost == '') and 1 or cost + 0
limit, window = limit + 0, window * 1000
if window == 0 then return redis.error_reply('RLCTL_ARG window_ms is at least 1') end
if 3 * limit >= MAX or cost >= MAX or now + 3 * window >= MAX or (back or 0) >= MAX then
  return redis.error_reply('RLCTL_ARG numbers too large to be exact')
end

-- floor(x * y / z) for y <= z or a quotient below 2^53: the product goes in digits where it would not be exact.
local function share(x, y, z)
  if x * y < MAX then return (x * y - x * y % z) / z end
  local whole, rest = (x - x % z) / z * y, x % z
  local base, quotient, carry = 1048576, 0, 0
  while base > 2 and 2 * z * base >= MAX do base = base / 2 end
  local digits = {}
  while y > 0 do
    digits[#digits + 1] = y % base
    y = (y - y % base) / base
  end
  for i = #digits, 1, -1 do
    local sum = carry * base + rest * digits[i]
    carry = sum % z
    quotient = quotient * base + (sum - carry) / z
  end
  return whole + quotient
end

local key = KEYS[1]
local stored = call('GET', key)
local begin = now - now % window
local current, previous, clamped = 0, 0, false
if stored then
  if #stored ~= 24 then return redis.error_reply('RLCTL_STATE not a counter: ' .. key) end
  local start
  start, current, previous = struct.unpack('<ddd', stored)
  if not (start >= 0 and start < MAX and current >= 0 and 3 * current < MAX and previous >= 0 and 3 * previous < MAX)
    or start % 1 + current % 1 + previous % 1 > 0 then
    return redis.error_reply('RLCTL_STATE not a counter: ' .. key)
  end
  if start == begin - window then
    current, previous = 0, current
  elseif start < begin then
    current, previous = 0, 0
  elseif start > begin and start - now <= window then
    now, begin = start, start
  elseif start > begin then
    clamped = true
  end
end

back = current + previous > 0 and back
if back then
  local rest = back > current and back - current or 0
  current = back < current and current - back or 0
  previous = rest < previous and previous - rest or 0
end
local ahead = window - (now - begin)
-- What the last window still counts, rounded up: the sum stays a whole number and the comparison exact.
local carried = previous
if previous > 0 and ahead < window then carried = previous - share(previous, window - ahead, window) end
local room = limit - current - carried
if limit > 0 and cost <= room or cost == 0 and limit > 0 then
  if cost > 0 then
    current = current + cost
    room = room - cost
    local ends = ahead + window + 999
    ends = (ends - ends % 1000) / 1000
    call('SET', key, struct.pack('<ddd', begin, current, previous), 'PX', format('%d', ends + 1000))
    return {1, limit, room, 0, ends, 0}
  end
end
local reset = 0
if current > 0 then
  reset = ahead + window + 999
elseif previous > 0 then
  reset = ahead + 999
end
reset = (reset - reset % 1000) / 1000
if room < 0 then room = 0 end
if clamped and cost > 0 or back and limit > 0 then
  local ends = ahead + window + 999
  ends = (ends - ends % 1000) / 1000
  call('SET', key, struct.pack('<ddd', begin, current, previous), 'PX', format('%d', ends + 1000))
end
if cost == 0 and limit > 0 then return {1, limit, room, 0, reset, 0} end
if cost > limit or limit == 0 then return {0, limit, room, -1, reset, 3} end
local spare = limit - current - cost
local wait
if spare >= 0 then
  -- previous * (window - e) <= spare * window holds from e = window - floor(spare * window / previous) on.
  wait = begin + window - share(spare, window, previous) - now
else
  wait = ahead + window - share(limit - cost, window, current)
end
wait = wait + 999
return {0, limit, room, (wait - wait % 1000) / 1000, reset, 1}
