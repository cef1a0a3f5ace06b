package terrain

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spatialcells/spatialcells/node/terrain/ground"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

var seed = []byte("a seed of thirty-two bytes or so")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func grid(t *testing.T) torus.Grid {
	t.Helper()
	g, err := torus.NewGrid(2, 2, 15)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// start makes a service whose answers go to a channel.
func start(t *testing.T, workers int) (*Service, chan zone.ChunkAnswer) {
	t.Helper()
	answers := make(chan zone.ChunkAnswer, 4096)
	s, err := New(grid(t), seed, workers, func(a zone.ChunkAnswer) { answers <- a })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, answers
}

func receive(t *testing.T, answers chan zone.ChunkAnswer) zone.ChunkAnswer {
	t.Helper()
	select {
	case a := <-answers:
		return a
	case <-time.After(10 * time.Second):
		t.Fatal("no answer")
	}
	return zone.ChunkAnswer{}
}

func TestAnAnswerHoldsTheGround(t *testing.T) {
	s, answers := start(t, 2)
	if !s.Request(zone.ChunkRequest{Chunk: torus.ChunkPos{X: 31, Y: -1}}) {
		t.Fatal("refused")
	}
	a := receive(t, answers)
	if a.Chunk != (torus.ChunkPos{X: 1, Y: 29}) || a.Revision != 0 {
		t.Fatalf("answer for %v revision %d", a.Chunk, a.Revision)
	}
	var got, want ground.Chunk
	if err := ground.Decode(a.Encoding, a.Payload, &got); err != nil {
		t.Fatal(err)
	}
	s.Generator().Chunk(a.Chunk, &want)
	if got != want {
		t.Fatal("the payload holds other ground")
	}
}

func TestAChunkIsGeneratedOnceAndThenKept(t *testing.T) {
	s, answers := start(t, 1)
	var first []byte
	for i := range 5 {
		s.Request(zone.ChunkRequest{Chunk: torus.ChunkPos{X: 3, Y: 4}})
		a := receive(t, answers)
		if i == 0 {
			first = a.Payload
		} else if &first[0] != &a.Payload[0] {
			t.Fatal("the payload is not shared")
		}
	}
	if st := s.Stats(); st.Generated != 1 || st.Cached != 4 || st.Waiting != 0 || st.CacheBytes == 0 {
		t.Fatalf("stats %+v", st)
	}
}

func TestRequestsForAWaitingChunkShareItsAnswer(t *testing.T) {
	var deliveries []torus.ChunkPos
	var mu sync.Mutex
	inHand, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s, err := New(grid(t), seed, 1, func(a zone.ChunkAnswer) {
		once.Do(func() { close(inHand) })
		<-release
		mu.Lock()
		defer mu.Unlock()
		deliveries = append(deliveries, a.Chunk)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Request(zone.ChunkRequest{})
	<-inHand // the only worker is busy: what follows waits
	b := torus.ChunkPos{X: 1}
	for range 100 {
		s.Request(zone.ChunkRequest{Chunk: b})
	}
	if st := s.Stats(); st.Waiting != 1 {
		t.Fatalf("%d chunks wait, want 1", st.Waiting)
	}
	close(release)
	deadline := time.Now().Add(10 * time.Second)
	for s.Stats().Generated < 2 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	mu.Lock()
	defer mu.Unlock()
	if len(deliveries) > 2 {
		t.Fatalf("deliveries %v", deliveries)
	}
}

func TestARequestMadeWhileItsAnswerIsDeliveredIsAnsweredToo(t *testing.T) {
	answers := make(chan zone.ChunkAnswer, 8)
	var s *Service
	var again sync.Once
	ready := make(chan struct{})
	s, err := New(grid(t), seed, 1, func(a zone.ChunkAnswer) {
		<-ready
		again.Do(func() { s.Request(zone.ChunkRequest{Chunk: a.Chunk}) })
		answers <- a
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Request(zone.ChunkRequest{})
	close(ready)
	receive(t, answers)
	receive(t, answers)
}

func TestTheQueueIsBounded(t *testing.T) {
	wide, err := torus.NewGrid(16, 16, 250)
	if err != nil {
		t.Fatal(err)
	}
	busy, release := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(busy) })
	s, err := New(wide, seed, 1, func(zone.ChunkAnswer) { begin(); <-release })
	if err != nil {
		t.Fatal(err)
	}
	s.Request(zone.ChunkRequest{Chunk: torus.ChunkPos{X: 3999, Y: 3999}})
	<-busy
	for i := range int32(maxQueue) {
		if !s.Request(zone.ChunkRequest{Chunk: torus.ChunkPos{X: i % 4000, Y: i / 4000}}) {
			t.Fatalf("request %d refused", i)
		}
	}
	if s.Request(zone.ChunkRequest{Chunk: torus.ChunkPos{Y: 1000}}) || s.Stats().Refused != 1 {
		t.Fatal("a request beyond the bound was taken in, or not counted")
	}
	if !s.Request(zone.ChunkRequest{Chunk: torus.ChunkPos{X: 1}}) {
		t.Fatal("a chunk that waits already was refused")
	}
	close(release)
	s.Close()
	if s.Request(zone.ChunkRequest{}) {
		t.Fatal("a closed service took a request")
	}
}

func TestServicesOfOneSeedAgreeAndOthersDoNot(t *testing.T) {
	payloadOf := func(seed []byte) ([]byte, uint64) {
		answers := make(chan zone.ChunkAnswer, 1)
		s, err := New(grid(t), seed, 1, func(a zone.ChunkAnswer) { answers <- a })
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.Request(zone.ChunkRequest{Chunk: torus.ChunkPos{X: 7, Y: 7}})
		return receive(t, answers).Payload, s.SeedHash()
	}
	a, hashA := payloadOf(seed)
	b, hashB := payloadOf(seed)
	c, hashC := payloadOf([]byte("another seed of thirty-two bytes"))
	if !bytes.Equal(a, b) || hashA != hashB {
		t.Error("the same seed gives another world")
	}
	if bytes.Equal(a, c) || hashA == hashC {
		t.Error("another seed gives the same world")
	}
}

func TestWhatIsRequired(t *testing.T) {
	nothing := func(zone.ChunkAnswer) {}
	for name, try := range map[string]func() (*Service, error){
		"short seed":  func() (*Service, error) { return New(grid(t), []byte("short"), 1, nothing) },
		"no workers":  func() (*Service, error) { return New(grid(t), seed, 0, nothing) },
		"no receiver": func() (*Service, error) { return New(grid(t), seed, 1, nil) },
	} {
		if s, err := try(); err == nil {
			s.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}
