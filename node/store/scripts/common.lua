-- What several scripts share: it is put before them.

-- unreadable is the error about a hash that this program does not know how to change.
local unreadable = 'FORMAT of the record is unknown'

-- known reports whether a record may be read and written: format 1 has no contents and becomes 2 by the next claim or
-- write.
local function known(format)
  return format == '1' or format == '2'
end

-- missing is the reply about a record without an epoch: there is none, or its creation was given up, or it is unreadable.
local function missing(key)
  if redis.call('EXISTS', key) == 1 and redis.call('HEXISTS', key, 'void') == 0 then
    return redis.error_reply(unreadable)
  end
  return { 'missing' }
end

-- inParts calls a command on a key with many arguments, some at a time, and returns all replies in one list.
local function inParts(command, key, args)
  local part, replies = 1000, {}
  for from = 1, #args, part do
    local reply = redis.call(command, key, unpack(args, from, math.min(from + part - 1, #args)))
    if type(reply) == 'table' then
      for i = 1, math.min(part, #args - from + 1) do
        replies[#replies + 1] = reply[i]
      end
    end
  end
  return replies
end

-- withoutBlob returns all fields and values of a hash but its blob.
local function withoutBlob(key)
  local all, kept = redis.call('HGETALL', key), {}
  for i = 1, #all, 2 do
    if all[i] ~= 'blob' then
      kept[#kept + 1] = all[i]
      kept[#kept + 1] = all[i + 1]
    end
  end
  return kept
end
