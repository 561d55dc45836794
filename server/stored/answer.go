package stored

import (
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// mostAnswers limits the cached answers, and mostAnswered the encoded history, in
	// bytes, from which such an answer is made: the answer takes several times as much.
	mostAnswers, mostAnswered = 4096, 2 << 10
)

// asker is the key of polls that get the same answer from one decision.
type asker struct {
	store.Key
	as        string
	min, max  int32
	unbounded [2]bool // without min, without max
}

func askerOf(key store.Key, poll Poll) asker {
	a := asker{Key: key, as: poll.As, unbounded: [2]bool{poll.Min == nil, poll.Max == nil}}
	if poll.Min != nil {
		a.min = *poll.Min
	}
	if poll.Max != nil {
		a.max = *poll.Max
	}
	return a
}

// answer is a cached answer by the last decision. Most polls get one from the cache: while
// the versions of both records are unchanged, neither needs decoding.
type answer struct {
	spec, history  store.Version
	at             int64
	period         time.Duration
	from, to       int32
	recommendation *setpointv1.Recommendation // shared by all that receive it
	err            error
}

// answers reports whether the answer was made from these records of spec and history.
func (a *answer) answers(records []store.Record, poll Poll, now time.Time) bool {
	return a.spec == records[0].Version && a.history == records[1].Version && counts(a.at, a.period, now) && sees(poll, a.from, a.to)
}

// remember caches an answer made from records.
func (t *Targets) remember(by asker, records []store.Record, spec *setpointv1.TargetSpec, h *recommender.History, r *setpointv1.Recommendation, err error) {
	if len(records[1].Value) > mostAnswered {
		return
	}
	t.answers.Put(by, &answer{
		spec: records[0].Version, history: records[1].Version, at: h.Last.At, period: period(spec),
		from: h.Last.From, to: h.Last.To, recommendation: r, err: err,
	})
}
