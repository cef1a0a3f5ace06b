-- Enters an entity into the index of a region, before it is claimed for that region. KEYS: {r:<column>,<row>}:index.
-- ARGV: entity id, and the epoch with which it comes: recoveries, transfers. The entry keeps the highest one.
local entry = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local recoveries, transfers = string.match(entry, '^(%d+) (%d+)$')
if recoveries then
  local r, t, nr, nt = tonumber(recoveries), tonumber(transfers), tonumber(ARGV[2]), tonumber(ARGV[3])
  if r > nr or r == nr and t >= nt then
    return { 'entered' }
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return { 'entered' }
