package nodes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Report is a node's report about the usage of its tasks.
type Report struct {
	// Node is its id in the swarm.
	Node string `json:"node"`
	// At is the time of the report, by the node's clock.
	At time.Time `json:"at"`
	// Tasks of the node that have a whole window.
	Tasks []TaskUsage `json:"tasks"`
}

// TaskUsage is the usage of a task over a window.
type TaskUsage struct {
	// Task is its id.
	Task string `json:"task"`
	// At is when the window ended, by the node's clock; Window is how long it was, seconds.
	At     time.Time `json:"at"`
	Window float64   `json:"window"`
	// CPU is the rate over the window, billionths of a core; Memory the working set at its end,
	// bytes, 0: unknown, because the node's kernel does not account it.
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory,omitempty"`
}

// Bounds of a report.
const (
	MaxReportBytes = 1 << 20
	maxReportTasks = 4096
	maxNodes       = 4096
	maxIDBytes     = 64
	maxWindow      = time.Hour
)

// ParseReport parses a report. The error says what is invalid.
func ParseReport(body []byte) (*Report, error) {
	if len(body) > MaxReportBytes {
		return nil, fmt.Errorf("the report is larger than %d bytes", MaxReportBytes)
	}
	var r Report
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("the report is not valid JSON: %s", typed.Shorten(err.Error(), maxQuoted))
	}
	switch {
	case !isID(r.Node):
		return nil, errors.New("the report has no valid node id")
	case r.At.IsZero():
		return nil, errors.New("the report does not say when it was sent")
	case len(r.Tasks) > maxReportTasks:
		return nil, fmt.Errorf("a report may have at most %d tasks, this one has %d", maxReportTasks, len(r.Tasks))
	}
	for i := range r.Tasks {
		if t := &r.Tasks[i]; !isID(t.Task) || t.CPU < 0 || t.CPU > maxCPU || t.Memory < 0 || t.Memory > maxMemory || !(t.Window > 0) || t.Window > maxWindow.Seconds() || t.At.IsZero() {
			return nil, fmt.Errorf("tasks[%d] has an invalid task id, time, window or usage", i)
		}
	}
	return &r, nil
}

// Larger values are refused: their sums would overflow 64 bits of milli-units and become
// negative.
const (
	maxCPU    = 10_000 * 1_000_000_000 // nanocores
	maxMemory = 1 << 42                // bytes
)

// isID reports whether a text can be one of Swarm's ids.
func isID(text string) bool {
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return text != "" && len(text) <= maxIDBytes
}

// Store has the last reports of nodes. It is safe for concurrent use.
type Store struct {
	maxAge time.Duration

	mu sync.Mutex
	// nodes by their ids. Guarded by mu.
	nodes map[string]*node
}

// node is a node's last report.
type node struct {
	// sent is when it was sent, by the node's clock, and came when it arrived, by this one's.
	sent, came time.Time
	// tasks by their ids.
	tasks map[string]TaskUsage
}

// DefaultUsageAge is the default maximum age of usage: three reports' time, so that a lost one
// has no effect.
const DefaultUsageAge = 45 * time.Second

// NewStore returns an empty store. Usage older than maxAge does not count; 0: DefaultUsageAge.
func NewStore(maxAge time.Duration) *Store {
	return &Store{maxAge: cmp.Or(maxAge, DefaultUsageAge), nodes: map[string]*node{}}
}

// Errors about refused reports.
var (
	// ErrReplayed means that a report is not newer than the node's last one.
	ErrReplayed = errors.New("the report is not newer than the last one of its node")
	errTooMany  = fmt.Errorf("the maximum of %d nodes already report", maxNodes)
)

// Fresh returns ErrReplayed unless a report that the node sent at that time is newer than its
// last one.
func (n *Store) Fresh(id string, sent time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fresh(id, sent)
}

func (n *Store) fresh(id string, sent time.Time) error {
	if last := n.nodes[id]; last != nil && !sent.After(last.sent) {
		return ErrReplayed
	}
	return nil
}

// checkWindows returns the problem of a report whose usage would be too old before the next report.
func (n *Store) checkWindows(r *Report) error {
	for i := range r.Tasks {
		if window := time.Duration(r.Tasks[i].Window * float64(time.Second)); window > n.maxAge {
			return fmt.Errorf("a window is %s long, and usage counts for %s only: lower --interval of node, or raise --usage-max-age of the agent, to three times the interval",
				window.Round(time.Second), n.maxAge)
		}
	}
	return nil
}

// Take stores a report of an authenticated node; a signed one, which others may replay, only if
// it is newer than the last.
func (n *Store) Take(r *Report, now time.Time, signed bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if signed {
		if err := n.fresh(r.Node, r.At); err != nil {
			return err
		}
	}
	if n.nodes[r.Node] == nil && len(n.nodes) >= maxNodes {
		n.sweep(now)
		if len(n.nodes) >= maxNodes {
			return errTooMany
		}
	}
	taken := &node{sent: r.At, came: now, tasks: make(map[string]TaskUsage, len(r.Tasks))}
	for _, t := range r.Tasks {
		// Of two containers of a task the one with the latest window counts.
		if last, twice := taken.tasks[t.Task]; !twice || t.At.After(last.At) {
			taken.tasks[t.Task] = t
		}
	}
	n.nodes[r.Node] = taken
	return nil
}

// forgetNode is how long a silent node is kept: longer than an authenticated report of it might
// be replayed.
const forgetNode = 15 * time.Minute

// sweep drops silent nodes. The lock is held.
func (n *Store) sweep(now time.Time) {
	for id, node := range n.nodes {
		if now.Sub(node.came) > forgetNode {
			delete(n.nodes, id)
		}
	}
}

// Reporting returns the number of nodes that reported within the maximum age.
func (n *Store) Reporting(now time.Time) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, node := range n.nodes {
		if now.Sub(node.came) <= n.maxAge {
			count++
		}
	}
	return count
}

// leastSkew is the smallest difference of clocks that is distinguished from the duration of a
// report.
const leastSkew = time.Second

// Skew returns how far this machine's clock is ahead of a node's, according to its last report;
// 0: less than a second, or unknown.
func (n *Store) Skew(id string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last := n.nodes[id]; last != nil {
		if skew := last.came.Sub(last.sent); skew.Abs() >= leastSkew {
			return skew
		}
	}
	return 0
}

// Task is a running task and its node.
type Task struct{ ID, Node string }

// Usage returns the usage of the tasks that have any, in their order, with timestamps of this
// machine's clock; or the problem if no task has any. Only a task's own node may report it. A
// task without a whole window, or with old usage, is missing.
func (n *Store) Usage(now time.Time, tasks []Task) (out []TaskUsage, problem string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	silent := map[string]bool{}
	for _, t := range tasks {
		from := n.nodes[t.Node]
		if from == nil || now.Sub(from.came) > n.maxAge {
			silent[t.Node] = true
			continue
		}
		used, there := from.tasks[t.ID]
		if !there {
			continue
		}
		// It has this age by the node's own clock, whatever that shows. None lies in the
		// future.
		used.At = from.came.Add(-max(from.sent.Sub(used.At), 0))
		if now.Sub(used.At) <= n.maxAge {
			out = append(out, used)
		}
	}
	switch {
	case len(out) > 0:
		return out, ""
	case len(tasks) == 0:
		return nil, "no task runs"
	case len(n.nodes) == 0:
		return nil, "no node has reported usage: is setpoint-swarm node running on each node?"
	case len(silent) > 0:
		names := slices.Sorted(maps.Keys(silent))
		return nil, fmt.Sprintf("there is no usage of the %d running tasks: %d of their nodes did not report within %s (%s); does setpoint-swarm node run there, and what does its log say?",
			len(tasks), len(silent), n.maxAge, strings.Join(names[:min(len(names), mostNamed)], ", "))
	}
	return nil, fmt.Sprintf("there is no usage of the %d running tasks yet: that of a task takes two reports of its node", len(tasks))
}

// mostNamed bounds the nodes that a problem names.
const mostNamed = 3

// maxQuoted bounds others' texts in errors, bytes.
const maxQuoted = 200
