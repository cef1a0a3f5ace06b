-- Changes the contents of a holder, whole or not at all. KEYS: {e:<entity>}; or {r:<column>,<row>}:ground,
-- {r:<column>,<row>}:fence.
-- ARGV: 1 id of the write; 2, 3 count of writes before and after it; 4, 5 epoch: recoveries, transfers, of a ground the
-- fence alone; 6, 7 serials made and ended; 8 to 11 how many items, out entries, in entries and edits there may be; 12 to 14
-- how many more of the first three there will be; 15, 16, 17 how many fields are removed, added and deepened; then the
-- names of the removed ones, then names and values of the others.
-- Its work depends on the change, not on what the holder has.
-- Replies: 'written' (now or before), 'missing', or 'conflict', why, the fields of the holder without its blob, the fence.
local key, ground = KEYS[1], KEYS[2] ~= nil
local format, recoveries, transfers, write, moves, made, ended, counts = unpack(redis.call('HMGET', key,
  'format', 'recoveries', 'transfers', 'write', 'moves', 'made', 'ended', 'counts'))
if not ground and not recoveries then
  return missing(KEYS[1])
end
if ground and not format and redis.call('EXISTS', key) == 0 then
  format = '2'
end
if not known(format) or ground and format ~= '2' then
  return redis.error_reply(unreadable)
end
if write == ARGV[1] then
  return { 'written' }
end

local fence = ground and redis.call('GET', KEYS[2]) or '0'
local function conflict(why)
  return { 'conflict', why, withoutBlob(key), fence }
end
if ground and fence ~= ARGV[4] or not ground and (recoveries ~= ARGV[4] or transfers ~= ARGV[5]) then
  return conflict('fence')
end
if (moves or '0') ~= ARGV[2] then
  return conflict('moves')
end
for _, count in ipairs({ made or '0', ended or '0' }) do
  if not string.match(count, '^%d+$') or #count > 18 then
    return redis.error_reply(unreadable)
  end
end

local removed, added, deepened = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
local at = 17
local names, leaving, gone, changes = {}, {}, {}, {}
for i = 1, removed do
  at = at + 1
  names[i], leaving[i], gone[ARGV[at]] = ARGV[at], ARGV[at], true
end
for _ = 1, added + deepened do
  names[#names + 1] = ARGV[at + 1]
  changes[#changes + 1] = ARGV[at + 1]
  changes[#changes + 1] = ARGV[at + 2]
  at = at + 2
end

local stored, opened = inParts('HMGET', key, names), 0
for i, name in ipairs(names) do
  local value = stored[i]
  if i <= removed then
    if not value then
      return conflict('unfitting')
    end
  elseif i <= removed + added then
    if value and not gone[name] then
      return conflict('unfitting')
    end
  elseif not value then
    opened = opened + 1
  elseif (tonumber(value) or 0) > tonumber(changes[2 * (i - removed)]) then
    return conflict('unfitting')
  end
end

-- number counts the fields of each kind, in the order of the limits. It is stored, so that a write need not do it.
local function number()
  local kinds, n = { ['i:'] = 1, ['o:'] = 2, ['n:'] = 3, ['c:'] = 4 }, { 0, 0, 0, 0 }
  for _, name in ipairs(redis.call('HKEYS', key)) do
    local kind = kinds[string.sub(name, 1, 2)]
    if kind then
      n[kind] = n[kind] + 1
    end
  end
  return n
end

local n = { string.match(counts or '', '^(%d+) (%d+) (%d+) (%d+)$') }
if #n == 0 then
  n = number()
end
local more = { ARGV[12], ARGV[13], ARGV[14], opened }
for i = 1, 4 do
  n[i] = tonumber(n[i]) + tonumber(more[i])
  -- Fewer than before is never too many.
  if tonumber(more[i]) > 0 and n[i] > tonumber(ARGV[7 + i]) then
    return conflict('unfitting')
  end
end

if not ground then
  redis.call('HINCRBY', key, 'version', 1)
end
redis.call('HSET', key, 'format', '2', 'write', ARGV[1], 'moves', ARGV[3],
  'counts', string.format('%.0f %.0f %.0f %.0f', n[1], n[2], n[3], n[4]))
redis.call('HINCRBY', key, 'made', ARGV[6])
redis.call('HINCRBY', key, 'ended', ARGV[7])
inParts('HDEL', key, leaving)
inParts('HSET', key, changes)
return { 'written' }
