package agent

import (
	"slices"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Waking an object while its reconcile is in flight is not lost.
func TestAnObjectIsHurried(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(nil, nil, nil)
	fatal.If(t, err)
	s := newStates(m)
	key, later := (Key{Kind: "Service", Namespace: "shop", Name: "web"}), time.Now().Add(time.Hour)
	st := s.of(key)
	s.begin(st)
	s.makeDue([]Key{key})
	want(t, "due after a reconcile that was hurried", s.end(st, later), time.Time{})
	s.begin(st)
	want(t, "due after a reconcile that was not", s.end(st, later), later)
}

func TestTheShortestPeriodIsThatOfTheObjectsThereAre(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(nil, nil, nil)
	fatal.If(t, err)
	s := newStates(m)
	see := func(name string, period time.Duration) Key {
		key := Key{Kind: "Service", Namespace: "shop", Name: name}
		s.saw(s.of(key), &Object{Key: key, Period: period})
		return key
	}
	want(t, "of none", s.shortestPeriod(), time.Hour)
	see("web", time.Minute)
	see("db", time.Second)
	queue := see("queue", time.Second)
	want(t, "of three", s.shortestPeriod(), time.Second)
	see("db", 5*time.Second)
	want(t, "of three, one of which changed", s.shortestPeriod(), time.Second)
	s.drop(queue)
	want(t, "of two", s.shortestPeriod(), 5*time.Second)
}

func TestAnAverageOverNoReplicasIsInWords(t *testing.T) {
	t.Parallel()
	none := "9223372036854775807m"
	m := &setpointv1.MetricStatus{Type: "External", External: &setpointv1.ExternalMetricStatus{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Current: &setpointv1.MetricValueStatus{AverageValue: &none}}}
	got := append(metricsOf(&setpointv1.HorizontalPodAutoscalerStatus{CurrentMetrics: []*setpointv1.MetricStatus{m}}, nil), reading(m))
	if want := []string{"queue without replicas to divide it by", "queue no average"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Once the clock is set back, another caller is not told of until it is that late again.
func TestAnotherCallerOfTheFutureIsNone(t *testing.T) {
	t.Parallel()
	l := &Loop{rivals: &rivals{}}
	for ago, told := range map[time.Duration]bool{0: true, rivalSeen + time.Second: false, -time.Hour: false} {
		l.rival.Store(time.Now().Add(-ago).UnixNano())
		if text := l.Rival(); (text != "") != told {
			t.Errorf("seen %s ago: %q", ago, text)
		}
	}
}
