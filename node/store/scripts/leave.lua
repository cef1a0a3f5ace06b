-- Takes an entity out of the index of a region that it has left. KEYS: {r:<column>,<row>}:index.
-- ARGV: entity id, and an epoch with which it was elsewhere: recoveries, transfers. An entry that is newer stays: the
-- entity has come back since, or is about to.
local entry = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local recoveries, transfers = string.match(entry, '^(%d+) (%d+)$')
if recoveries then
  local r, t, lr, lt = tonumber(recoveries), tonumber(transfers), tonumber(ARGV[2]), tonumber(ARGV[3])
  if r < lr or r == lr and t <= lt then
    redis.call('HDEL', KEYS[1], ARGV[1])
  end
end
return { 'left' }
