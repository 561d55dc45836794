package shadow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const period = 15 * time.Second

// play notes rounds a period apart: "5" is both, "5/4" ours and theirs.
func play(l *Ledger, key Key, begin time.Time, rounds string) (changes []Change) {
	for i, text := range strings.Fields(rounds) {
		r := Round{At: begin.Add(time.Duration(i) * period), Period: period}
		if _, err := fmt.Sscanf(text, "%d/%d", &r.Ours.Replicas, &r.Theirs.Replicas); err != nil {
			_, _ = fmt.Sscanf(text, "%d", &r.Ours.Replicas)
			r.Theirs.Replicas = r.Ours.Replicas
		}
		changes = append(changes, l.Note(key, "x", r))
	}
	return changes
}

func TestRoundsAreJudged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		rounds           string
		agreed, diverged int
		worst            int32
		divergences      int
		agrees           bool
	}{
		{"the same all along", "3 3 3 3 5 5 5 5", 8, 0, 0, 0, true},
		{"a difference is not judged before two periods are over", "3 3 3/5 3/5 3/5", 2, 0, 0, 0, true},
		{"then it is", "3 3 3/5 3/5 3/5 3/5", 2, 1, 2, 1, false},
		{"they come after a round: timing", "3 3 5/3 5 5 5 5", 7, 0, 0, 0, true},
		{"they come after two periods: timing", "3 5/3 5/3 5 5 5 5", 7, 0, 0, 0, true},
		{"they come after three periods: the first round was one of difference", "3 5/3 5/3 5/3 5 5 5 5", 7, 1, 2, 1, true},
		{"we come a round later, and the count goes on: timing", "3 3/4 4/6 6/7 7/9 9/9 9 9", 8, 0, 0, 0, true},
		{"they come a round later, and the count goes on: timing", "3 4/3 6/4 7/6 9/7 9/9 9 9", 8, 0, 0, 0, true},
		{"they never come", "3 3/4 3/4 3/4 3/4 3/4 3/4 3/4", 1, 4, 1, 1, false},
		{"they overshoot for long and come back", "3 3/9 3/9 3/9 3/9 3/9 3 3 3", 6, 3, 6, 1, true},
		{"twice", "3 3/9 3/9 3/9 3/9 3 3 3 8/3 8/3 8/3 8/3 3 3 3", 11, 4, 6, 2, true},
		{"both changing, and never the same", "1/5 2/6 3/7 4/8 9/20 10/30 11/40 12/50", 0, 5, 11, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := NewLedger()
			key := Key{"HorizontalPodAutoscaler", "shop", "web"}
			var agreed, diverged, began, ended int
			for _, c := range play(l, key, start, tt.rounds) {
				agreed, diverged = agreed+c.Agreed, diverged+c.Diverged
				if c.Began {
					began++
				}
				if c.Ended {
					ended++
				}
			}
			o := l.Report(start).Objects[0]
			got := fmt.Sprint(o.Agreed, o.Diverged, o.Worst, len(o.Divergences), o.Agrees)
			if want := fmt.Sprint(tt.agreed, tt.diverged, tt.worst, tt.divergences, tt.agrees); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if agreed != o.Agreed || diverged != o.Diverged {
				t.Errorf("changes tell of %d and %d, the report of %d and %d", agreed, diverged, o.Agreed, o.Diverged)
			}
			if began != tt.divergences || (began == ended) != tt.agrees {
				t.Errorf("%d began, %d ended", began, ended)
			}
			if divergent := l.Divergent(); (divergent == 0) != tt.agrees {
				t.Errorf("%d divergent", divergent)
			}
		})
	}
}

func TestDivergencesAreExplained(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		ours, theirs Side
		want         string
	}{
		{"other readings", Side{Replicas: 5, Metrics: []string{"cpu 90%"}}, Side{Replicas: 3, Metrics: []string{"cpu 60%"}},
			"5 here, 3 there; read cpu 90% here, cpu 60% there"},
		{"other conditions", Side{Replicas: 3, Conditions: map[string]string{"AbleToScale": "True ReadyForNewScale", "ScalingActive": "True ValidMetricFound"}},
			Side{Replicas: 5, Conditions: map[string]string{"AbleToScale": "True ScaleDownStabilized", "ScalingActive": "True ValidMetricFound"}},
			"3 here, 5 there; AbleToScale is True ReadyForNewScale here, True ScaleDownStabilized there"},
		{"what held the count here", Side{Replicas: 3, Limits: []string{"a window of 300 s holds it at 3"}}, Side{Replicas: 5},
			"3 here, 5 there; a window of 300 s holds it at 3"},
		{"nothing is known", Side{Replicas: 3}, Side{Replicas: 5},
			"3 here, 5 there; nothing that is known of both differs: they may have read at different instants, or remember different recommendations"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := NewLedger()
			key, told := Key{"Autoscaler", "shop", "web"}, ""
			for i := range 4 {
				change := l.Note(key, "x", Round{At: start.Add(time.Duration(i) * period), Period: period, Ours: tt.ours, Theirs: tt.theirs})
				told += change.Explanation
			}
			if d := l.Report(start).Objects[0].Divergences[0]; d.Explanation != tt.want || told != tt.want {
				t.Errorf("got  %s\ntold %s\nwant %s", d.Explanation, told, tt.want)
			}
		})
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l, key := NewLedger(), Key{"HorizontalPodAutoscaler", "shop", "web"}
	const times = 500
	for i := range times {
		play(l, key, start.Add(time.Duration(i)*12*period), "3 3/9 3/9 3/9 3/9 3 3 3 3 3 3 3")
	}
	o := l.Report(start).Objects[0]
	if len(o.Divergences) != maxDivergences || o.Dropped != times-maxDivergences {
		t.Errorf("%d divergences kept, %d dropped", len(o.Divergences), o.Dropped)
	}
	if o.Agreed != times*10 || o.Diverged != times*2 {
		t.Errorf("%d agreed, %d diverged", o.Agreed, o.Diverged)
	}
	agreed, diverged := 0, 0
	for i, s := range o.Timeline {
		agreed, diverged = agreed+s.Agreed, diverged+s.Diverged
		if i > 0 && s.From.Before(o.Timeline[i-1].To) {
			t.Errorf("span %d begins before the one before ends", i)
		}
	}
	if len(o.Timeline) > maxSpans || len(o.Timeline) < maxSpans/2 || agreed != o.Agreed || diverged != o.Diverged {
		t.Errorf("%d spans hold %d and %d rounds, want %d and %d", len(o.Timeline), agreed, diverged, o.Agreed, o.Diverged)
	}
	if first := o.Timeline[0].From; first.After(start) {
		t.Errorf("the timeline begins at %s, after the first round", first)
	}
	// A period that is very long leaves rounds open, but not without end.
	for i := range 10 * maxOpen {
		l.Note(key, "x", Round{At: start.AddDate(1, 0, 0).Add(time.Duration(i) * time.Second), Period: 24 * time.Hour, Theirs: Side{Replicas: 1}})
	}
	if n := len(l.accounts[key].open); n > maxOpen {
		t.Errorf("%d rounds are open", n)
	}
	l.Forget(key)
	if n := len(l.Report(start).Objects); n != 0 {
		t.Errorf("%d objects after they are forgotten", n)
	}
}

func TestReportAsText(t *testing.T) {
	t.Parallel()
	l := NewLedger()
	var empty bytes.Buffer
	if err := l.Report(start).WriteText(&empty); err != nil || empty.String() != "No shadow has had a round yet.\n" {
		t.Errorf("%v %q", err, empty.String())
	}
	play(l, Key{"HorizontalPodAutoscaler", "shop", "web"}, start, "3 3/9 3/9 3/9 3/9 3 3 3 4/5 4/5 4/5 4/5")
	play(l, Key{"Autoscaler", "shop", "api"}, start, "3 3 3")
	var text bytes.Buffer
	if err := l.Report(start).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	const want = `OBJECT                            AGAINST  AGREES  NOW     ROUNDS  AGREED  WORST  SINCE                 OVER TIME
Autoscaler shop/api               x        yes     3 vs 3  3       100%    0      2026-01-01T00:00:00Z  .
HorizontalPodAutoscaler shop/web  x        no      4 vs 5  9       66%     6      2026-01-01T00:00:00Z  5.X

HorizontalPodAutoscaler shop/web:
  from 2026-01-01T00:00:15Z to 2026-01-01T00:00:30Z, 2 rounds, by up to 6: 3 here, 9 there; nothing that is known of both differs: they may have read at different instants, or remember different recommendations
  from 2026-01-01T00:02:00Z and goes on, 1 rounds, by up to 1: 4 here, 5 there; nothing that is known of both differs: they may have read at different instants, or remember different recommendations
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	data, err := json.Marshal(l.Report(start))
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(data, &back); err != nil || len(back.Objects) != 2 || back.Objects[1].Name != "web" {
		t.Errorf("%v %s", err, data)
	}
}
