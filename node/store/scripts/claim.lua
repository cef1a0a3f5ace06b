-- Claims a record for a new epoch and home. KEYS: {e:<entity>}.
-- ARGV: expected recoveries, transfers; new recoveries, transfers, column, row; what that does to the epoch.
-- Replies: 'claimed' (now or before), 'conflict' or 'missing'; the fields of the record; its column and row before.
local format, recoveries, transfers, column, row =
  unpack(redis.call('HMGET', KEYS[1], 'format', 'recoveries', 'transfers', 'column', 'row'))
local status = 'missing'
if recoveries then
  if not known(format) then
    return redis.error_reply(unreadable)
  end
  local stays = column == ARGV[5] and row == ARGV[6]
  status = 'conflict'
  if recoveries == ARGV[1] and transfers == ARGV[2] and (ARGV[7] == 'raise' or ARGV[7] == 'keep' and stays) then
    redis.call('HSET', KEYS[1], 'format', '2', 'recoveries', ARGV[3], 'transfers', ARGV[4], 'column', ARGV[5],
      'row', ARGV[6], 'resting', '0')
    redis.call('HINCRBY', KEYS[1], 'version', 1)
    status = 'claimed'
  elseif recoveries == ARGV[3] and transfers == ARGV[4] and stays then
    status = 'claimed'
  end
end
return { status, redis.call('HGETALL', KEYS[1]), column, row }
