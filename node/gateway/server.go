package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/net/netutil"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Path is where the WebSocket is.
const Path = "/play"

// Server accepts clients until Shutdown.
type Server struct {
	cfg      Config
	metrics  *metrics
	listener net.Listener
	http     *http.Server
	upgrader websocket.Upgrader
	served   chan struct{} // closed when the HTTP server has ended
	running  sync.WaitGroup

	mu sync.Mutex
	// stopping is set once; no socket is admitted after it.
	stopping bool
	// sockets are all that are open: pending, connected and refused ones.
	sockets map[*conn]struct{}
	// connected are those that authenticated and were not forgotten yet.
	connected map[zone.ConnID]*conn
	pending   int
	refusing  int
	addresses map[netip.Prefix]int
	lastConn  zone.ConnID
}

// New listens and serves. The error says what is missing in the configuration or why the address cannot be listened on.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(cfg.ListenHost, strconv.Itoa(cfg.Port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for clients on %s: %w", address, err)
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Server{
		cfg: cfg, metrics: m, served: make(chan struct{}),
		sockets: map[*conn]struct{}{}, connected: map[zone.ConnID]*conn{}, addresses: map[netip.Prefix]int{},
	}
	s.serve(listener)
	return s, nil
}

// serve starts the HTTP server.
func (s *Server) serve(listener net.Listener) {
	l := s.cfg.Limits
	s.listener = patientListener{netutil.LimitListener(listener, l.Connections+l.Pending+2*refusals), l.Stall}
	s.upgrader = websocket.Upgrader{
		HandshakeTimeout: l.Auth,
		ReadBufferSize:   1 << 10,
		WriteBufferSize:  4 << 10,
		WriteBufferPool:  &sync.Pool{},
		CheckOrigin:      func(r *http.Request) bool { return originAllowed(r, s.cfg.AllowedOrigins) },
		Error:            s.handshakeFailed,
	}
	mux := http.NewServeMux()
	mux.HandleFunc(Path, s.play)
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: l.Auth, ReadTimeout: l.Auth, WriteTimeout: l.Stall, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	s.http.SetKeepAlivesEnabled(false)
	go func() {
		defer close(s.served)
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Log.Error("the gateway stopped listening", "error", err)
		}
	}()
}

// Addr is the address that the gateway listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Send queues one frame for a connection. The bytes are the gateway's from then on. A connection that is gone, or going,
// is counted and left out; one whose backlog is full is closed as SLOW_READER.
func (s *Server) Send(b zone.ClientBytes) {
	if c := s.lookup(b.Conn); c == nil || !c.send(b.Bytes) {
		s.metrics.unknownSends.Inc()
	}
}

// CloseConn ends a connection after what was queued before; the client is told reason and detail.
func (s *Server) CloseConn(cl zone.ClientClose) {
	if c := s.lookup(cl.Conn); c == nil || !c.end(cl.Reason, cl.Detail) {
		s.metrics.unknownSends.Inc()
	}
}

// Kick ends all connections of an account with KICKED and returns how many there were. An empty detail is replaced.
func (s *Server) Kick(account uint64, detail string) int {
	if detail == "" {
		detail = "you were removed from the world; ask its operators"
	}
	kicked := 0
	for _, c := range s.open(func(c *conn) bool { return c.account == account && account != 0 }) {
		if c.end(wire.Disconnected_REASON_KICKED, detail) {
			kicked++
		}
	}
	return kicked
}

// Connections is the number of authenticated connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connected)
}

// Shutdown takes no new clients, tells the others SHUTTING_DOWN and returns when all goroutines have ended. When ctx ends
// before, the sockets are cut off and ctx's error is returned. The handler has seen Closed for each connection.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	for _, c := range s.open(func(*conn) bool { return true }) {
		c.end(wire.Disconnected_REASON_SHUTTING_DOWN, "this gateway stops; connect again with your resume token")
	}
	closed := s.http.Close() // the listener and requests that are no sockets yet
	<-s.served
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return closed
	case <-ctx.Done():
	}
	for _, c := range s.open(func(*conn) bool { return true }) {
		c.socket.Close()
	}
	<-done
	return fmt.Errorf("shutting the gateway down: %w", ctx.Err())
}

// play turns a request into a socket and serves it until its end.
func (s *Server) play(w http.ResponseWriter, r *http.Request) {
	c, verdict := s.admit(r.RemoteAddr)
	if c == nil {
		s.refuse(w, verdict)
		return
	}
	defer s.running.Done()
	defer s.forget(c)
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // handshakeFailed has told and counted it
	}
	c.open(ws)
	if verdict != "" {
		c.end(wire.Disconnected_REASON_TOO_MANY_CONNECTIONS, verdict)
	}
	c.run()
}

// refuse answers a request that gets no socket at all.
func (s *Server) refuse(w http.ResponseWriter, cause string) {
	s.metrics.refused.WithLabelValues(cause).Inc()
	w.Header().Set("Retry-After", "5")
	http.Error(w, "this gateway takes no more connections now; try again in a few seconds", http.StatusServiceUnavailable)
}

// handshakeFailed answers a request that is no acceptable WebSocket handshake.
func (s *Server) handshakeFailed(w http.ResponseWriter, r *http.Request, status int, reason error) {
	cause, text := refusedHandshake, "use a WebSocket client: "+reason.Error()
	if status == http.StatusForbidden {
		cause, text = refusedOrigin, "pages of this origin may not connect; the world's operators can allow it"
	}
	s.metrics.refused.WithLabelValues(cause).Inc()
	s.cfg.Log.Info("client request refused", "cause", cause, "from", r.RemoteAddr, "error", reason)
	w.Header().Set("Sec-WebSocket-Version", "13")
	http.Error(w, text, status)
}

// admit takes a seat for a socket. A verdict beside a connection is what its client is to be told before it is closed; a
// verdict alone is the cause for which there is not even room for that.
func (s *Server) admit(remote string) (*conn, string) {
	address := addressOf(remote)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil, refusedShutdown
	}
	verdict := s.full(address)
	if verdict != "" && s.refusing >= refusals {
		return nil, refusedOverload
	}
	s.lastConn++
	c := newConn(s, s.lastConn, address)
	if c.refused = verdict != ""; c.refused {
		s.refusing++
	} else {
		s.pending++
		s.addresses[address]++
	}
	s.sockets[c] = struct{}{}
	s.running.Add(1)
	s.gauge()
	return c, verdict
}

// full says why there is no room for one more client, or nothing.
func (s *Server) full(address netip.Prefix) string {
	l := s.cfg.Limits
	switch {
	case len(s.connected) >= l.Connections:
		return "this gateway is full; try again later"
	case s.pending >= l.Pending:
		return "too many clients are connecting; try again in a few seconds"
	case l.PerAddress > 0 && s.addresses[address] >= l.PerAddress:
		return fmt.Sprintf("more than %d connections from your address; close one", l.PerAddress)
	}
	return ""
}

// promote moves a pending socket to the connected ones; false when these are full or the gateway stops.
func (s *Server) promote(c *conn, account uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || len(s.connected) >= s.cfg.Limits.Connections {
		return false
	}
	s.pending--
	c.account = account
	s.connected[c.id] = c
	s.gauge()
	return true
}

// forget gives the seat back.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sockets, c)
	switch _, connected := s.connected[c.id]; {
	case c.refused:
		s.refusing--
	case connected:
		delete(s.connected, c.id)
	default:
		s.pending--
	}
	if !c.refused {
		if s.addresses[c.address]--; s.addresses[c.address] == 0 {
			delete(s.addresses, c.address)
		}
	}
	s.gauge()
}

// gauge publishes the counts; called with mu held.
func (s *Server) gauge() {
	s.metrics.connections.Set(float64(len(s.connected)))
	s.metrics.pending.Set(float64(s.pending))
}

// lookup returns a connected socket or nil.
func (s *Server) lookup(id zone.ConnID) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected[id]
}

// open returns the open sockets that match.
func (s *Server) open(match func(*conn) bool) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*conn
	for c := range s.sockets {
		if c.isOpen() && match(c) {
			list = append(list, c)
		}
	}
	return list
}

// addressOf returns what connections are counted by: an IPv4 address or an IPv6 /64, which is what one customer gets.
func addressOf(remote string) netip.Prefix {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := ap.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// now is the monotonic clock of sockets; the fence has its own.
func now() time.Time { return time.Now() }
