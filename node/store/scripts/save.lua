-- Saves a record. KEYS: {e:<entity>}. ARGV: recoveries, transfers, resting, blob, writer, number of the save.
-- A writer numbers its saves; one that comes after a later one of the same epoch is dropped. Replies: 'saved' (also if
-- dropped), 'conflict' or 'missing'.
local format, recoveries, transfers, writer, number =
  unpack(redis.call('HMGET', KEYS[1], 'format', 'recoveries', 'transfers', 'writer', 'number'))
if not recoveries then
  return missing(KEYS[1])
end
if not known(format) then
  return redis.error_reply(unreadable)
end
if recoveries ~= ARGV[1] or transfers ~= ARGV[2] then
  return { 'conflict' }
end
if writer == ARGV[5] and (tonumber(number) or 0) > tonumber(ARGV[6]) then
  return { 'saved' }
end
redis.call('HSET', KEYS[1], 'resting', ARGV[3], 'blob', ARGV[4], 'writer', ARGV[5], 'number', ARGV[6])
redis.call('HINCRBY', KEYS[1], 'version', 1)
return { 'saved' }
