#!lua
-- Fixed window: one integer, the count followed by 13 digits of window number. Denied calls never count.
-- A negative cost takes as much off the count of the current window.
local call, find, format, sub = redis.call, string.find, string.format, string.sub
local MAX = 9007199254740992
local limit, window, cost, now, more = unpack(ARGV, 1, 5)
if #KEYS ~= 1 or not window or more or limit == '' or window == '' then
  return redis.error_reply('RLCTL_ARG fixed_window wants one key and limit, window_ms, cost, now_us')
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
if limit + cost >= MAX or now + 2 * window >= MAX or (back or 0) >= MAX then
  return redis.error_reply('RLCTL_ARG numbers too large to be exact')
end

local key = KEYS[1]
local stored = call('GET', key)
local number = (now - now % window) / window
local count = 0
local clamped = false
if stored then
  if #stored < 14 or #stored > 29 or not find(stored, '^%d+$') then
    return redis.error_reply('RLCTL_STATE not a count: ' .. key)
  end
  local seen = sub(stored, -13) + 0
  if seen == number then
    count = sub(stored, 1, -14) + 0
  elseif seen > number then
    count = sub(stored, 1, -14) + 0
    if seen * window - now <= window then
      number, now = seen, seen * window
    else
      clamped = true
    end
  end
end

local left = (number + 1) * window - now + 999
left = (left - left % 1000) / 1000
back = count > 0 and back
if back then count = count > back and count - back or 0 end
local room = limit - count
if limit > 0 and cost <= room or cost == 0 and limit > 0 then
  if cost > 0 or back then
    count = count + cost
    call('SET', key, format('%d%013d', count, number), 'PX', format('%d', left + 1000))
  end
  room = limit - count
  return {1, limit, room > 0 and room or 0, 0, count > 0 and left or 0, 0}
end
if clamped and cost > 0 then call('SET', key, format('%d%013d', count, number), 'PX', format('%d', left + 1000)) end
local never = cost > limit or limit == 0
return {0, limit, room > 0 and room or 0, never and -1 or left, count > 0 and left or 0, never and 3 or 1}
