-- Names the master of an account, if it has none or one whose creation was given up. KEYS: {a:<account>}.
-- ARGV: entity id, id of the given up master or ''. Replies: 'reserved' or 'taken', and the id of the master.
local master = redis.call('HGET', KEYS[1], 'master')
if master and master ~= ARGV[1] and master ~= ARGV[2] then
  return { 'taken', master }
end
redis.call('HSET', KEYS[1], 'master', ARGV[1])
return { 'reserved', ARGV[1] }
