-- Creates a record. KEYS: {e:<entity>}. ARGV: recoveries, transfers, column, row, account, resting, blob, moves, made,
-- ended; then names and values of its contents.
-- Replies: 'created', 'void' (its creation was given up), or 'exists' and the fields of the record.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'format', '2', 'recoveries', ARGV[1], 'transfers', ARGV[2], 'column', ARGV[3],
    'row', ARGV[4], 'account', ARGV[5], 'resting', ARGV[6], 'blob', ARGV[7], 'version', '1',
    'moves', ARGV[8], 'made', ARGV[9], 'ended', ARGV[10])
  local contents = {}
  for i = 11, #ARGV do
    contents[i - 10] = ARGV[i]
  end
  inParts('HSET', KEYS[1], contents)
  return { 'created' }
end
if redis.call('HEXISTS', KEYS[1], 'void') == 1 then
  return { 'void' }
end
return { 'exists', redis.call('HGETALL', KEYS[1]) }
