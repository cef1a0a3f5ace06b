-- Claims the session of an account. KEYS: {a:<account>}. ARGV: claim id, session, resume secret shown, fresh secret.
-- Replies: session epoch, login epoch, resumed (0 or 1), previous gateway, current secret, master id. Missing ones are ''.
local history = 8
local key = KEYS[1]

local function current(field)
  return redis.call('HGET', key, field) or ''
end

local function reply(epoch, login, resumed, previous)
  return { epoch, login, resumed, previous, current('secret'), current('master') }
end

for slot = 0, history - 1 do
  local id, epoch, login, resumed, previous =
    string.match(current('claim' .. slot), '^(%x+) (%d+) (%d+) ([01]) (.*)$')
  if id == ARGV[1] then
    return reply(epoch, login, resumed, previous)
  end
end

local number = redis.call('HINCRBY', key, 'epoch', 1)
local epoch = string.format('%.0f', number)
local login, resumed = epoch, '0'
if ARGV[3] ~= '' and ARGV[3] == current('secret') then
  login, resumed = current('login'), '1'
else
  redis.call('HSET', key, 'login', epoch, 'secret', ARGV[4])
end
local previous = current('gateway')
local claim = table.concat({ ARGV[1], epoch, login, resumed, previous }, ' ')
redis.call('HSET', key, 'gateway', ARGV[2], string.format('claim%.0f', number % history), claim)
return reply(epoch, login, resumed, previous)
