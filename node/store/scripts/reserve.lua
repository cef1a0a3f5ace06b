-- Names the master of an account, if it has none or one whose creation was given up. KEYS: {a:<account>}.
-- ARGV: entity id, id of the given up master or ''. Replies: 'reserved' or 'taken', the id of the master, and for how
-- many seconds, by the server's clock, it has been that.
local master = redis.call('HGET', KEYS[1], 'master')
local now = tonumber(redis.call('TIME')[1])
if master and master ~= ARGV[1] and master ~= ARGV[2] then
  local since = tonumber(redis.call('HGET', KEYS[1], 'since') or '') or 0
  return { 'taken', master, string.format('%.0f', math.max(0, now - since)) }
end
if master ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'master', ARGV[1], 'since', string.format('%.0f', now))
end
return { 'reserved', ARGV[1], '0' }
