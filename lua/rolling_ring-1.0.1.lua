#!lua
-- Rolling window as a packed ring: 4 bytes an admitted instant (ms modulo 2^32) behind a header of 24 bytes:
-- newest and oldest live instant (6 bytes each, ms), next slot, live entries, slots (4 bytes each).
-- What is live is less than 2^32 ms older than the newest, so four bytes tell its instant; the rest is never read.
-- A negative cost drops as many of the newest.

-- The instant of the entry that has `age` newer ones. All is handed in: shared locals would cost every call.
local function instant(key, newest, head, slots, age)
  local at = 24 + (head - 1 - age) % slots * 4
  local entry = redis.call('GETRANGE', key, string.format('%d', at), string.format('%d', at + 3))
  if #entry < 4 then error({err = 'RLCTL_STATE a ring cut short: ' .. key}) end
  return newest - (newest - struct.unpack('>I4', entry)) % 4294967296
end

local call, find, format = redis.call, string.find, string.format
local MAX, WRAP, MOST, HEADER, RUN = 9007199254740992, 4294967296, 1000000, 24, 8
-- Entries that one command reads or writes, and the largest ring that is written in one piece: the server makes
-- strings in Lua byte by byte, which takes tens of milliseconds for a million entries.
local PIECE = 16384
local limit, window, interval, cost, now, more = unpack(ARGV, 1, 6)
if #KEYS ~= 1 or not window or more or limit == '' or window == '' then
  return redis.error_reply('RLCTL_ARG rolling_ring wants one key and limit, window_ms, min_interval_ms, cost, now_us')
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
limit, window = limit + 0, window + 0
if window == 0 then return redis.error_reply('RLCTL_ARG window_ms is at least 1') end
if interval > window then return redis.error_reply('RLCTL_ARG min_interval_ms is longer than window_ms') end
if limit > MOST or window >= WRAP or cost >= MAX or now + 2000 * window >= MAX or (back or 0) >= MAX then
  return redis.error_reply('RLCTL_ARG limit is at most 1000000, window_ms less than 2^32')
end

local key = KEYS[1]
local header = call('GETRANGE', key, '0', '23')
local newest, oldest, head, live, slots
if header == '' then
  live = 0
elseif #header < HEADER then
  return redis.error_reply('RLCTL_STATE not a ring: ' .. key)
else
  newest, oldest, head, live, slots = struct.unpack('>I6I6I4I4I4', header)
  if slots > MOST or head >= slots or live > slots or oldest > newest then
    return redis.error_reply('RLCTL_STATE not a ring: ' .. key)
  end
end

if back and live > 0 then
  if back > live then back = live end
  if back < live then newest = instant(key, newest, head, slots, back) else oldest = newest end
  head, live = (head - back) % slots, live - back
  call('SETRANGE', key, '0', struct.pack('>I6I6I4I4I4', newest, oldest, head, live, slots))
end

local moved = false
if live > 0 and newest * 1000 - now >= 1000 then
  if newest * 1000 - now > window * 1000 then
    -- The clock went back by more than a window: what lies beyond is no history of this clock.
    local bound, low, high = now + window * 1000, 0, live
    while low < high do
      local middle = (low + high - (low + high) % 2) / 2
      if instant(key, newest, head, slots, middle) * 1000 > bound then low = middle + 1 else high = middle end
    end
    if low > 0 then
      local left = low < live and instant(key, newest, head, slots, low) or nil
      moved, head, live, newest = true, (head - low) % slots, live - low, left or newest
    end
  end
  if live > 0 and newest * 1000 > now then now = newest * 1000 end
end

-- Usually the oldest still counts; else few have left since the last call: look at a run of them, then bisect.
local clock = (now - now % 1000) / 1000
local border = clock - window
if live > 0 and oldest <= border then
  local from = (head - live) % slots
  local run = RUN
  if run > live then run = live end
  if from + run > slots then run = slots - from end
  local first = HEADER + from * 4
  local entries = call('GETRANGE', key, format('%d', first), format('%d', first + run * 4 - 1))
  if #entries < run * 4 then return redis.error_reply('RLCTL_STATE a ring cut short: ' .. key) end
  local dead = 0
  repeat
    oldest = newest - (newest - struct.unpack('>I4', entries, dead * 4 + 1)) % WRAP
    if oldest > border then break end
    dead = dead + 1
  until dead == run
  if dead == run and live > run then
    local low, high = 0, live - run
    while low < high do
      local middle = (low + high - (low + high) % 2) / 2
      if instant(key, newest, head, slots, middle) > border then low = middle + 1 else high = middle end
    end
    live = low
    if live > 0 then oldest = instant(key, newest, head, slots, live - 1) end
  else
    live = live - dead
  end
end

local room = limit - live
local reset = 0
if live > 0 then
  reset = (newest + window) * 1000 - now + 999
  reset = (reset - reset % 1000) / 1000
end
if cost == 0 and limit > 0 then return {1, limit, room > 0 and room or 0, 0, reset, 0} end
local wait, reason = 0, 0
if cost > limit or limit == 0 then
  wait, reason = -1, 3
else
  if interval > 0 and live > 0 and clock - newest < interval then
    wait, reason = (newest + interval) * 1000 - now, 2
  end
  if cost > room then
    local leaves = oldest
    if cost - room > 1 then leaves = instant(key, newest, head, slots, live - (cost - room)) end
    leaves = (leaves + window) * 1000 - now
    if leaves > wait then wait = leaves end
    reason = 1
  end
end
if reason > 0 then
  if moved and cost > 0 then
    call('SETRANGE', key, '0', struct.pack('>I6I6I4I4I4', newest, oldest, head, live, slots))
  end
  if wait > 0 then
    wait = wait + 999
    wait = (wait - wait % 1000) / 1000
  end
  return {0, limit, room > 0 and room or 0, wait, reset, reason}
end

local stamp = now + 999
stamp = (stamp - stamp % 1000) / 1000
if slots ~= limit then
  -- The first call, or another limit: packed at full size, the live ones from slot 0 on, oldest first.
  local from = slots and (head - live) % slots
  if limit <= PIECE then
    local old, new = '', ''
    if live > 0 then
      local behind = from + live > slots and slots - from or live
      old = call('GETRANGE', key, format('%d', HEADER + from * 4), format('%d', HEADER + (from + behind) * 4 - 1))
      if behind < live then new = call('GETRANGE', key, '24', format('%d', HEADER + head * 4 - 1)) end
      if #old + #new < live * 4 then return redis.error_reply('RLCTL_STATE a ring cut short: ' .. key) end
    end
    local ring = string.rep('\0', HEADER) .. old .. new .. string.rep('\0', 4 * (limit - live))
    if slots then
      call('SET', key, ring)
    elseif not call('SET', key, ring, 'NX') then
      return redis.error_reply('RLCTL_STATE not a ring: ' .. key)
    end
    head, slots = live, limit
  elseif not slots then
    call('SETRANGE', key, format('%d', HEADER + limit * 4 - 4), '\0\0\0\0')
    head, slots = 0, limit
  elseif limit > slots then
    -- Grown in place, the oldest moved to the new end, from there on; a large ring under a lower limit stays as it is.
    instant(key, newest or 0, slots, slots, 0)
    call('SETRANGE', key, format('%d', HEADER + limit * 4 - 4), '\0\0\0\0')
    if live == 0 or from + live == slots then
      head = from + live
    elseif from + live > slots then
      local left, high = HEADER + from * 4, HEADER + slots * 4
      while high > left do
        local low = high - left > PIECE * 4 and high - PIECE * 4 or left
        local entries = call('GETRANGE', key, format('%d', low), format('%d', high - 1))
        call('SETRANGE', key, format('%d', low + 4 * (limit - slots)), entries)
        high = low
      end
    end
    slots = limit
  end
end
if live == 0 then oldest = stamp end
local entry = struct.pack('>I4', stamp % WRAP)
if cost == 1 then
  call('SETRANGE', key, format('%d', HEADER + head * 4), entry)
else
  local entries = string.rep(entry, cost > PIECE and PIECE or cost)
  local at, left = head, cost
  while left > 0 do
    local run = left > PIECE and PIECE or left
    if at + run > slots then run = slots - at end
    local piece = string.sub(entries, 1, run * 4)
    call('SETRANGE', key, format('%d', HEADER + at * 4), piece)
    at, left = (at + run) % slots, left - run
  end
end
call('SETRANGE', key, '0', struct.pack('>I6I6I4I4I4', stamp, oldest, (head + cost) % slots, live + cost, slots))
call('PEXPIRE', key, format('%d', window + 1000))
return {1, limit, room - cost, 0, stamp * 1000 > now and window + 1 or window, 0}
