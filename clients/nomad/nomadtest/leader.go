package nomadtest

import (
	"encoding/json"
	"net/http"
	"time"
)

// Leader is whether the server, a follower, has a leader to forward calls to.
type Leader int

// Leaders.
const (
	// Led: it has one.
	Led Leader = iota
	// Lost: it has just lost it without noticing. Calls fail at once, and so do waiting ones.
	Lost
	// Leaderless: it has noticed. Calls wait for a leader, and fail.
	Leaderless
)

// leaderWait is how long a call waits for a leader.
const leaderWait = 5 * time.Second

const (
	noLeader   = "No cluster leader"
	leaderGone = "rpc error: failed to get conn: dial tcp 127.0.0.1:4821: connect: connection refused"
	leaderEnds = "rpc error: EOF" // to those who wait when it does
)

// SetLeader sets whether there is a leader. Stale reads succeed in any case, with the state
// that behind returns if it is not nil.
func (s *Server) SetLeader(l Leader, behind *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l != s.leader && s.led != nil {
		close(s.led)
		s.led = nil
	}
	s.leader, s.behind = l, behind
}

// passOn answers on behalf of the follower itself; false: forward to the leader.
func (s *Server) passOn(r *http.Request) (answer, bool) {
	s.mu.Lock()
	leader, behind := s.leader, s.behind
	s.mu.Unlock()
	if stale(r) {
		if behind != nil {
			old := &Server{index: behind.index, policies: behind.policies, jobs: copied(behind.jobs)}
			return old.route(r), true
		}
		return answer{}, false
	}
	health := r.URL.Path == "/v1/agent/health"
	switch leader {
	case Lost:
		return refuse(http.StatusInternalServerError, leaderGone), true
	case Leaderless:
		time.Sleep(leaderWait)
		if health {
			text, _ := json.Marshal(map[string]any{"server": map[string]any{"ok": false, "message": noLeader}})
			return refuse(http.StatusInternalServerError, "%s", text), true
		}
		return refuse(http.StatusInternalServerError, noLeader), true
	}
	if health {
		ok := map[string]any{"ok": true, "message": "ok"}
		return answer{status: http.StatusOK, body: map[string]any{"client": ok, "server": ok}}, true
	}
	return answer{}, false
}

func stale(r *http.Request) bool { return r.URL.Query().Has("stale") }

// lead is closed when the leader changes or is lost. The lock is held.
func (s *Server) lead() <-chan struct{} {
	if s.led == nil {
		s.led = make(chan struct{})
	}
	return s.led
}

// knowsLeader is the header about the leader in answers now: waiting queries keep the value of
// their start.
func (s *Server) knowsLeader() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader == Leaderless {
		return "false"
	}
	return "true"
}
