#!lua
-- GCRA: one integer, the theoretical arrival time (TAT) in microseconds. A leaky bucket as a meter.
-- A negative cost gives requests back.
local call, find, format = redis.call, string.find, string.format
local MAX = 9007199254740992
local burst, rate, period, cost, now, more = unpack(ARGV, 1, 6)
if #KEYS ~= 1 or not period or more or burst == '' or rate == '' or period == '' then
  return redis.error_reply('RLCTL_ARG gcra wants one key and burst, rate, period_ms, cost, now_us')
end
if #KEYS[1] + #burst + #rate + #period + #(cost or '') + #(now or '') > 4096 then
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
if not find(burst .. rate .. period .. (cost or ''), '^%d+$') then
  back = cost and find(cost, '^%-[1-9]%d*$') and find(burst .. rate .. period, '^%d+$') and -cost
  if not back then return redis.error_reply('RLCTL_ARG burst, rate, period_ms and cost are whole numbers') end
  cost = 0
end
cost = (not cost or cost == '') and 1 or cost + 0
burst, rate, period = burst + 0, rate + 0, period * 1000
if rate == 0 or period == 0 then
  return redis.error_reply('RLCTL_ARG rate and period_ms are at least 1')
end
-- Rounded up, so that the meter is never faster than the rule.
local spacing = period + rate - 1
spacing = (spacing - spacing % rate) / rate
local span = burst * spacing
if rate >= MAX or period >= MAX or cost >= MAX or now + 2 * span >= MAX or (back or 0) >= MAX then
  return redis.error_reply('RLCTL_ARG numbers too large to be exact')
end

local key = KEYS[1]
local stored = call('GET', key)
local tat = now
local clamped = false
if stored then
  if #stored > 16 or not find(stored, '^%d+$') then return redis.error_reply('RLCTL_STATE not a time: ' .. key) end
  tat = stored + 0
  if burst > 0 and tat > now + span then
    if tat > now + 2 * span then
      tat, clamped = now + span, true
    else
      now = tat - span
    end
  elseif tat < now then
    tat = now
  end
end

if back then tat = back * spacing < tat - now and tat - back * spacing or now end
local after = tat + cost * spacing
local free = now + span
if burst == 0 or cost > burst then
  local reset = tat - now + 999
  local left = free > tat and (free - tat - (free - tat) % spacing) / spacing or 0
  if clamped and cost > 0 then
    call('SET', key, format('%d', tat), 'PX', format('%d', (reset - reset % 1000) / 1000 + 1000))
  end
  return {0, burst, left, -1, (reset - reset % 1000) / 1000, 3}
end
if after > free then
  local wait, reset = after - free + 999, tat - now + 999
  reset = (reset - reset % 1000) / 1000
  if clamped then call('SET', key, format('%d', tat), 'PX', format('%d', reset + 1000)) end
  return {0, burst, (free - tat - (free - tat) % spacing) / spacing, (wait - wait % 1000) / 1000, reset, 1}
end
local reset = after - now + 999
reset = (reset - reset % 1000) / 1000
if cost > 0 or back and stored then call('SET', key, format('%d', after), 'PX', format('%d', reset + 1000)) end
return {1, burst, (free - after - (free - after) % spacing) / spacing, 0, reset, 0}
