#!lua
-- Concurrent: a sorted set of request ids, each with the instant at which its lease ends.
local call, find, format = redis.call, string.find, string.format
local MAX, MOST = 9007199254740992, 10000
local verb, limit, lease, id, now, more = unpack(ARGV, 1, 6)
if #KEYS ~= 1 or not id or more or limit == '' or lease == '' then
  return redis.error_reply('RLCTL_ARG concurrent wants one key and verb, limit, lease_ms, request_id, now_us')
end
if #KEYS[1] + #verb + #limit + #lease + #id + #(now or '') > 4096 then
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
if not find(limit .. lease, '^%d+$') then
  return redis.error_reply('RLCTL_ARG limit and lease_ms are whole numbers')
end
limit, lease = limit + 0, lease * 1000
if limit >= MAX or now + 2 * lease >= MAX then
  return redis.error_reply('RLCTL_ARG numbers too large to be exact')
end
if verb ~= 'acquire' and verb ~= 'release' and verb ~= 'renew' and verb ~= 'peek' then
  return redis.error_reply('RLCTL_ARG verb is one of acquire, release, renew, peek')
end
local key = KEYS[1]

-- Until the last lease ends, in ms.
local function reset_ms()
  local last = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2]
  local left = last and last - now + 999 or 0
  return left > 0 and (left - left % 1000) / 1000 or 0
end

if verb == 'peek' then
  local room = limit - call('ZCOUNT', key, '(' .. format('%d', now), '+inf')
  if room < 0 then room = 0 end
  if limit == 0 then return {0, 0, 0, -1, reset_ms(), 3} end
  return {1, limit, room, 0, reset_ms(), 0}
end
if id == '' or lease == 0 then
  return redis.error_reply('RLCTL_ARG request_id and lease_ms are needed to ' .. verb)
end

-- A call removes at most 10000 leases that have ended, and cuts at most 1000: more would block the shard. Later calls
-- do the rest; a lease that has ended and is still there does not count.
local ended, count = 0, call('ZCARD', key)
if count > MOST then
  ended = call('ZCOUNT', key, '-inf', format('%d', now))
  local gone = ended > MOST and MOST or ended
  if gone > 0 then call('ZREMRANGEBYRANK', key, '0', format('%d', gone - 1)) end
  count, ended = count - ended, ended - gone
else
  count = count - call('ZREMRANGEBYSCORE', key, '-inf', format('%d', now))
end
-- A lease that ends further ahead than any could was written by a faster clock: it is cut, never dropped.
local bound, cut = '(' .. format('%d', now + 2 * lease), format('%d', now + lease)
local beyond = call('ZRANGEBYSCORE', key, bound, '+inf', 'LIMIT', '0', '1000')
if #beyond > 0 then
  local batch = {}
  for i = 1, #beyond do batch[2 * i - 1], batch[2 * i] = cut, beyond[i] end
  call('ZADD', key, unpack(batch))
end
local held = call('ZSCORE', key, id)
if ended > 0 and held and held + 0 <= now then held = false end
local room = limit - count

if verb == 'release' then
  if held then
    call('ZREM', key, id)
    room = room + 1
  end
elseif verb == 'renew' and not held then
  return {0, limit, room > 0 and room or 0, -1, reset_ms(), 4}
elseif limit == 0 then
  return {0, 0, 0, -1, reset_ms(), 3}
elseif not held and room < 1 then
  local rank = format('%d', ended - room)
  local wait = call('ZRANGE', key, rank, rank, 'WITHSCORES')[2] - now + 999
  return {0, limit, 0, (wait - wait % 1000) / 1000, reset_ms(), 1}
else
  call('ZADD', key, format('%d', now + lease), id)
  if not held then room = room - 1 end
end
local reset = reset_ms()
if reset > 0 then call('PEXPIRE', key, format('%d', reset + 1000)) end
return {1, limit, room > 0 and room or 0, 0, reset, 0}
