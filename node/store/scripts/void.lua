-- Gives up the creation of an entity, for good, if it has not happened yet. KEYS: {e:<entity>}.
-- Replies: 'void', or 'exists' and the fields of the record.
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], 'void') == 0 then
  return { 'exists', redis.call('HGETALL', KEYS[1]) }
end
redis.call('HSET', KEYS[1], 'void', '1')
return { 'void' }
