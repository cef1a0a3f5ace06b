-- Raises the fence of a region and reads its index. KEYS: {r:<column>,<row>}:fence, {r:<column>,<row>}:index.
-- ARGV: region epoch. Replies: 'raised' and the index as id, entry, id, entry ...; or 'conflict' and
-- the fence.
local fence = redis.call('GET', KEYS[1])
if fence and tonumber(fence) > tonumber(ARGV[1]) then
  return { 'conflict', fence }
end
redis.call('SET', KEYS[1], ARGV[1])
return { 'raised', redis.call('HGETALL', KEYS[2]) }
