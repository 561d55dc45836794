package shadow

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Key names an object.
type Key struct {
	// Kind, Namespace and Name are the object's.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Ledger has one account per object. It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	accounts map[Key]*account // guarded by mu
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{accounts: map[Key]*account{}} }

// Note records a reconcile of an object. against names the other side, for people; empty: as before.
func (l *Ledger) Note(key Key, against string, r Reconcile) Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[key]
	if a == nil {
		a = &account{}
		l.accounts[key] = a
	}
	a.against = cmp.Or(against, a.against)
	return a.note(r)
}

// Forget drops an object's account.
func (l *Ledger) Forget(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.accounts, key)
}

// Divergent returns how many objects differ now.
func (l *Ledger) Divergent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, a := range l.accounts {
		if a.running() != nil {
			n++
		}
	}
	return n
}

// Report is the state of a ledger at an instant.
type Report struct {
	At time.Time `json:"at"`
	// Objects is ordered by namespace, name and kind.
	Objects []Object `json:"objects"`
}

// Object is the account of an object.
type Object struct {
	Key
	// Against names the controller in charge. Empty: it was not read yet.
	Against string `json:"against"`
	// Since is the first reconcile; Last is the last one, with the sides Ours and Theirs.
	Since  time.Time `json:"since"`
	Last   time.Time `json:"last"`
	Ours   Side      `json:"ours"`
	Theirs Side      `json:"theirs"`
	// Agrees reports whether no divergence is running. None is while a side has no opinion.
	Agrees bool `json:"agrees"`
	// Agreed and Diverged count reconciles; those of the last two and a half periods are not judged yet.
	Agreed   int `json:"agreed"`
	Diverged int `json:"diverged"`
	// Unjudged counts reconciles in which a side had no opinion; NoOpinion is the reason of the
	// last one.
	Unjudged  int    `json:"unjudged,omitempty"`
	NoOpinion string `json:"noOpinion,omitempty"`
	// Worst is the largest difference so far, replicas.
	Worst int32 `json:"worst"`
	// Timeline is agreement over time, at most 24 spans of equal length.
	Timeline []Span `json:"timeline"`
	// Divergences are the last 20, oldest first; Dropped counts earlier ones.
	Divergences []Divergence `json:"divergences,omitempty"`
	Dropped     int          `json:"dropped,omitempty"`
}

// Report returns a copy of the ledger's state.
func (l *Ledger) Report(now time.Time) *Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	report := &Report{At: now, Objects: make([]Object, 0, len(l.accounts))}
	for key, a := range l.accounts {
		report.Objects = append(report.Objects, Object{
			Key: key, Against: a.against, Since: a.since, Last: a.last.At, Ours: a.last.Ours, Theirs: a.last.Theirs,
			Agrees: a.running() == nil, Agreed: a.agreed, Diverged: a.diverged, Worst: a.worst,
			Unjudged: a.unjudged, NoOpinion: a.why,
			Timeline: slices.Clone(a.timeline.spans), Divergences: slices.Clone(a.divergences), Dropped: a.dropped,
		})
	}
	slices.SortFunc(report.Objects, func(a, b Object) int { return a.Compare(b.Key) })
	return report
}

// String formats the key for messages: kind, namespace and name.
func (k Key) String() string { return k.Kind + " " + k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, name and kind.
func (k Key) Compare(with Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, with.Namespace), cmp.Compare(k.Name, with.Name), cmp.Compare(k.Kind, with.Kind))
}
