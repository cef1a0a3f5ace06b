package terrain

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/terrain/ground"
	"github.com/spatialcells/spatialcells/node/terrain/internal/lru"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// TerrainVersion is the version that nodes compare before they talk; see ground.Version.
const TerrainVersion = ground.Version

const (
	// maxQueue bounds the chunks that wait: the views of some 500 players who see nothing in common. It costs 1 MiB.
	maxQueue = 1 << 16
	// cacheBytes bounds the encoded chunks that are kept: about 60 000 of them.
	cacheBytes = 64 << 20
	// entryBytes is what an entry of the cache costs beside its payload.
	entryBytes = 160
	// maxWorkers bounds the workers; each has 1.2 MiB of compression state.
	maxWorkers = 64
)

// Service generates and encodes chunks.
type Service struct {
	generator *ground.Generator
	deliver   func(zone.ChunkAnswer)
	workers   sync.WaitGroup

	mu    sync.Mutex
	ready sync.Cond
	// queue holds the chunks that wait, oldest first; waiting those and the ones that a worker has in hand.
	queue   []torus.ChunkPos
	waiting map[torus.ChunkPos]struct{}
	cache   *lru.Cache[torus.ChunkPos, payload]
	closed  bool

	refused, generated, cached atomic.Uint64
}

// payload is an encoded chunk.
type payload struct {
	encoding wire.ChunkData_Encoding
	bytes    []byte
}

// Stats counts since the start.
type Stats struct {
	// Generated chunks, answers from the cache, and requests refused because the queue was full or the service closed.
	Generated, Cached, Refused uint64
	// Waiting chunks now, CacheBytes in use now.
	Waiting, CacheBytes int
}

// New starts workers goroutines (1 to 64). deliver is called from them, several at a time, and must not block for long.
func New(grid torus.Grid, seed []byte, workers int, deliver func(zone.ChunkAnswer)) (*Service, error) {
	if workers < 1 || workers > maxWorkers || deliver == nil {
		return nil, errors.New("terrain: 1 to 64 workers and a receiver of answers are required")
	}
	generator, err := ground.New(grid, seed)
	if err != nil {
		return nil, err
	}
	s := &Service{
		generator: generator, deliver: deliver,
		waiting: map[torus.ChunkPos]struct{}{}, cache: lru.New[torus.ChunkPos, payload](cacheBytes),
	}
	s.ready.L = &s.mu
	for range workers {
		s.workers.Add(1)
		go s.work()
	}
	return s, nil
}

// Generator is the ground that the service encodes; for walkability.
func (s *Service) Generator() *ground.Generator { return s.generator }

// SeedHash identifies the seed for the Hello of a link.
func (s *Service) SeedHash() uint64 { return s.generator.SeedHash() }

// Request asks for a chunk, canonical or not; the answer names the canonical one. False means that the queue is full or
// the service closed: the request is counted, not answered, and may be made again.
func (s *Service) Request(r zone.ChunkRequest) bool {
	c := s.generator.Grid().WrapChunk(int(r.Chunk.X), int(r.Chunk.Y))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.refused.Add(1)
		return false
	}
	if _, ok := s.waiting[c]; ok {
		return true
	}
	if len(s.queue) >= maxQueue {
		s.refused.Add(1)
		return false
	}
	s.waiting[c] = struct{}{}
	s.queue = append(s.queue, c)
	s.ready.Signal()
	return true
}

// Stats returns the counters.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Generated: s.generated.Load(), Cached: s.cached.Load(), Refused: s.refused.Load(),
		Waiting: len(s.waiting), CacheBytes: s.cache.Used(),
	}
}

// Close forgets what waits and returns when the workers have ended; no answer is delivered after it.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed, s.queue = true, nil
	s.ready.Broadcast()
	s.mu.Unlock()
	s.workers.Wait()
}

// work answers requests until Close.
func (s *Service) work() {
	defer s.workers.Done()
	encoder := ground.NewEncoder()
	var chunk ground.Chunk
	for {
		c, p, ok := s.next()
		if !ok {
			return
		}
		if p.bytes == nil {
			s.generator.Chunk(c, &chunk)
			p.encoding, p.bytes = encoder.Encode(&chunk)
			s.generated.Add(1)
		} else {
			s.cached.Add(1)
		}
		s.done(c, p)
		s.deliver(zone.ChunkAnswer{Chunk: c, Encoding: p.encoding, Payload: p.bytes})
	}
}

// next waits for a chunk and looks it up in the cache.
func (s *Service) next() (c torus.ChunkPos, p payload, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && !s.closed {
		s.ready.Wait()
	}
	if s.closed {
		return c, p, false
	}
	c, s.queue = s.queue[0], s.queue[1:]
	p, _ = s.cache.Get(c)
	return c, p, true
}

// done keeps the payload and lets the chunk be asked for anew. It comes before the delivery: a request made meanwhile is
// answered once more, one made after it would be lost.
func (s *Service) done(c torus.ChunkPos, p payload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, c)
	s.cache.Put(c, p, len(p.bytes)+entryBytes)
}
