-- Reads the contents of a holder. KEYS: {e:<entity>}; or {r:<column>,<row>}:ground, {r:<column>,<row>}:fence.
-- Replies: 'found', the fields of the holder without its blob, and the fence.
return { 'found', withoutBlob(KEYS[1]), KEYS[2] and redis.call('GET', KEYS[2]) or '0' }
