#!lua
-- Rolling window: a sorted set of admitted instants in (now - window, now]; a minimum interval in the same step.
-- A negative cost removes as many of the newest.
local call, find, format = redis.call, string.find, string.format
local MAX, MOST = 9007199254740992, 10000
local limit, window, interval, cost, now, more = unpack(ARGV, 1, 6)
if #KEYS ~= 1 or not window or more or limit == '' or window == '' then
  return redis.error_reply(
    'RLCTL_ARG rolling_window wants one key and limit, window_ms, min_interval_ms, cost, now_us')
end
if #KEYS[1] + #limit + #window + #(interval or '') + #(cost or '') + #(now or '') > 4096 then
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
if not find(limit .. window .. (interval or '') .. (cost or ''), '^%d+$') then
  back = cost and find(cost, '^%-[1-9]%d*$') and find(limit .. window .. (interval or ''), '^%d+$') and -cost
  if not back then
    return redis.error_reply('RLCTL_ARG limit, window_ms, min_interval_ms and cost are whole numbers')
  end
  cost = 0
end
cost = (not cost or cost == '') and 1 or cost + 0
interval = (not interval or interval == '') and 0 or interval + 0
limit, window, interval = limit + 0, window * 1000, interval * 1000
if window == 0 then return redis.error_reply('RLCTL_ARG window_ms is at least 1') end
if interval > window then return redis.error_reply('RLCTL_ARG min_interval_ms is longer than window_ms') end
-- A call adds as many entries as it costs, at most the limit: more of them would block the shard.
if limit > MOST then return redis.error_reply('RLCTL_ARG limit is at most 10000; rolling_ring takes more') end
if limit + cost >= MAX or now + 2 * window + cost >= MAX or (back or 0) >= MAX then
  return redis.error_reply('RLCTL_ARG numbers too large to be exact')
end

local key = KEYS[1]
local newest = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
local member, last = newest[1], newest[2]
local count, stored, oldest, expired = 0, 0, false, false
if member then
  member, last, count = #member < 17 and find(member, '^%d+$') and member + 0, last + 0, call('ZCARD', key)
  if not member or last < 0 or last % 1 ~= 0 then
    return redis.error_reply('RLCTL_STATE not a log of instants: ' .. key)
  end
  if back then
    call('ZREMRANGEBYRANK', key, format('%d', back < MOST and -back or -MOST), '-1')
    newest = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
    member, last, count = newest[1] and newest[1] + 0, newest[2] and newest[2] + 0, call('ZCARD', key)
  end
  if last and last > now + window then
    -- The clock went back by more than a window: what lies beyond is no history of this clock.
    local bound = format('%d', now + window)
    local beyond = call('ZCOUNT', key, '(' .. bound, '+inf')
    if cost > 0 then
      local from = format('%d', count - (beyond > MOST and MOST or beyond))
      call('ZREMRANGEBYRANK', key, from, '-1')
    end
    count = count - beyond
    newest = call('ZREVRANGEBYSCORE', key, bound, '-inf', 'WITHSCORES', 'LIMIT', '0', '1')
    member, last = newest[1] and newest[1] + 0, newest[2] and newest[2] + 0
  end
  if last and last > now then now = last end
  stored = count
  if last and last <= now - window then count, last = 0, false end
  -- Where all that is stored leaves room, the call is admitted, and the removal below counts what has expired.
  if last and (cost == 0 or cost > limit - count or now - last < interval) then
    oldest = call('ZRANGE', key, '0', '0', 'WITHSCORES')[2] + 0
    if oldest <= now - window then
      expired = format('%d', now - window)
      count = count - call('ZCOUNT', key, '-inf', expired)
    end
  end
end

local room = limit - count
local ends = (last or now - window) + window - now + 999
local reset = (ends - ends % 1000) / 1000
if cost == 0 and limit > 0 then return {1, limit, room > 0 and room or 0, 0, reset, 0} end
if cost > limit or limit == 0 then return {0, limit, room > 0 and room or 0, -1, reset, 3} end
local wait, reason = 0, 0
if last and now - last < interval then wait, reason = last + interval - now, 2 end
if cost > room then
  -- As many of the oldest must leave as are missing.
  local leaves = oldest
  if expired or cost - room > 1 then
    -- By rank: the server would walk to it one entry at a time if it were asked by score and offset.
    local rank = format('%d', stored - count + cost - room - 1)
    leaves = call('ZRANGE', key, rank, rank, 'WITHSCORES')[2]
  end
  leaves = leaves + window - now
  if leaves > wait then wait = leaves end
  reason = 1
end
if reason > 0 then
  wait = wait + 999
  return {0, limit, room > 0 and room or 0, (wait - wait % 1000) / 1000, reset, reason}
end
if member and stored <= MOST then
  stored = stored - call('ZREMRANGEBYSCORE', key, '-inf', expired or format('%d', now - window))
elseif member then
  -- More than this version stores, from an earlier one or not from a script: the rest goes with later calls.
  local dead = call('ZCOUNT', key, '-inf', format('%d', now - window))
  if dead > 0 then call('ZREMRANGEBYRANK', key, '0', format('%d', (dead > MOST and MOST or dead) - 1)) end
  stored = stored - dead
end
-- Of one width, so that members of one instant sort as numbers do and the last is the largest.
local first = now
if member and member >= now then first = member + 1 end
local score = format('%016d', now)
if cost == 1 and first == now then
  call('ZADD', key, score, score)
else
  local done = 0
  while done < cost do
    local batch = {}
    for i = done, (cost - done > 1000 and done + 1000 or cost) - 1 do
      batch[#batch + 1] = score
      batch[#batch + 1] = format('%016d', first + i)
    end
    call('ZADD', key, unpack(batch))
    done = done + #batch / 2
  end
end
window = window / 1000
call('PEXPIRE', key, format('%d', window + 1000))
return {1, limit, limit - stored - cost, 0, window, 0}
