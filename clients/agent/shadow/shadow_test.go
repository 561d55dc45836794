package shadow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const period = 15 * time.Second

// play records reconciles a period apart: "5" is both sides' count, "5/4" ours and theirs, "?"
// no opinion of ours, "!" none of theirs.
func play(l *Ledger, key Key, begin time.Time, reconciles string) (changes []Change) {
	for i, text := range strings.Fields(reconciles) {
		r := Reconcile{At: begin.Add(time.Duration(i) * period), Period: period}
		switch text {
		case "?":
			r.Ours.NoOpinion, r.Theirs.Replicas = "no metric", 3
		case "!":
			r.Ours.Replicas, r.Theirs.NoOpinion = 3, "no scale"
		}
		if _, err := fmt.Sscanf(text, "%d/%d", &r.Ours.Replicas, &r.Theirs.Replicas); err != nil {
			if n, _ := fmt.Sscanf(text, "%d", &r.Ours.Replicas); n == 1 {
				r.Theirs.Replicas = r.Ours.Replicas
			}
		}
		changes = append(changes, l.Note(key, "x", r))
	}
	return changes
}

func TestReconcilesAreJudged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		reconciles       string
		agreed, diverged int
		worst            int32
		divergences      int
		agrees           bool
	}{
		{"the same all along", "3 3 3 3 5 5 5 5", 8, 0, 0, 0, true},
		{"a difference is not judged before two periods are over", "3 3 3/5 3/5 3/5", 2, 0, 0, 0, true},
		{"then it is", "3 3 3/5 3/5 3/5 3/5", 2, 1, 2, 1, false},
		{"they come after a reconcile: timing", "3 3 5/3 5 5 5 5", 7, 0, 0, 0, true},
		{"they come after two periods: timing", "3 5/3 5/3 5 5 5 5", 7, 0, 0, 0, true},
		{"they come after three periods: the first reconcile was one of difference", "3 5/3 5/3 5/3 5 5 5 5", 7, 1, 2, 1, true},
		{"we come a reconcile later, and the count goes on: timing", "3 3/4 4/6 6/7 7/9 9/9 9 9", 8, 0, 0, 0, true},
		{"they come a reconcile later, and the count goes on: timing", "3 4/3 6/4 7/6 9/7 9/9 9 9", 8, 0, 0, 0, true},
		{"they never come", "3 3/4 3/4 3/4 3/4 3/4 3/4 3/4", 1, 4, 1, 1, false},
		{"they overshoot for long and come back", "3 3/9 3/9 3/9 3/9 3/9 3 3 3", 6, 3, 6, 1, true},
		{"twice", "3 3/9 3/9 3/9 3/9 3 3 3 8/3 8/3 8/3 8/3 3 3 3", 11, 4, 6, 2, true},
		{"no opinion is no difference", "? ? ? ? ? ! ! ! ! !", 0, 0, 0, 0, true},
		{"what was not judged before it is not judged after it", "3 3/5 3/5 ? ? ? ? ?", 1, 0, 0, 0, true},
		{"what could be judged without it is", "3 3/5 3/5 3/5 ? ? ? 3", 2, 1, 2, 1, true},
		{"timing is settled before it", "3 3/5 5 ? 5", 4, 0, 0, 0, true},
		{"what comes after it does not settle what was before", "3/5 ? 5 5 5 5", 4, 0, 0, 0, true},
		{"a difference ends with it, and begins anew", "3/5 3/5 3/5 3/5 3/5 ? 3/9 3/9 3/9 3/9", 0, 4, 6, 2, false},
		{"both changing, and never the same", "1/5 2/6 3/7 4/8 9/20 10/30 11/40 12/50", 0, 5, 11, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := NewLedger()
			key := Key{"HorizontalPodAutoscaler", "shop", "web"}
			var agreed, diverged, began, ended int
			for _, c := range play(l, key, start, tt.reconciles) {
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

// Reconciles are not exactly a period apart: a difference over three of them, of which the last one
// comes a little late, is timing. Once both agree, none is running.
func TestReconcilesMayBeLate(t *testing.T) {
	t.Parallel()
	l, key := NewLedger(), Key{"HorizontalPodAutoscaler", "shop", "web"}
	note := func(after time.Duration, ours, theirs int32) *Object {
		l.Note(key, "x", Reconcile{At: start.Add(after), Period: period, Ours: Side{Replicas: ours}, Theirs: Side{Replicas: theirs}})
		return &l.Report(start).Objects[0]
	}
	note(0, 23, 15)
	note(period+time.Second, 23, 15)
	if o := note(2*period+time.Second, 23, 23); o.Agreed != 3 || o.Diverged != 0 {
		t.Errorf("%d agreed, %d diverged", o.Agreed, o.Diverged)
	}
	for i := range time.Duration(4) {
		note((3+i)*period, 9, 6)
	}
	if o := note(7*period, 9, 9); !o.Agrees || o.Diverged != 2 {
		t.Errorf("agrees: %t after %d that diverged", o.Agrees, o.Diverged)
	}
}

// An object reports its first divergence, and the first one after each time without an opinion.
func TestTheFirstDivergenceIsReported(t *testing.T) {
	t.Parallel()
	const differ = "3/5 3/5 3/5 3/5 "
	for _, tt := range []struct {
		name, reconciles string
		first            int
	}{
		{"at once", differ, 1},
		{"a second one is not", differ + "3 3 3 3 " + differ, 1},
		{"no opinion at first is none", "? ? ? ? " + differ, 1},
		{"one after a time without an opinion is", differ + "3 3 3 3 ? 3 3 " + differ, 2},
		{"one that there was before, too", differ + "! " + differ, 2},
		{"but not two", differ + "? " + differ + "3 3 3 3 " + differ, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			first, paused, was := 0, 0, ""
			for i, c := range play(NewLedger(), Key{"HorizontalPodAutoscaler", "shop", "web"}, start, tt.reconciles) {
				if c.First {
					first++
				}
				if c.Paused {
					paused++
				}
				if c.Paused != (c.NoOpinion != "" && was == "") {
					t.Errorf("reconcile %d: %+v", i, c)
				}
				was = c.NoOpinion
			}
			if first != tt.first {
				t.Errorf("%d were told, want %d", first, tt.first)
			}
		})
	}
}

func TestOnlyWhatDiffersIsReported(t *testing.T) {
	t.Parallel()
	l := NewLedger()
	for name, reconciles := range map[string]string{
		"calm": "3 3 3 3", "mute": "? ? ?", "slight": "3/4 3/4 3/4 3/4", "long": "3/5 3/5 3/5 3/5 3/5 3/5", "past": "3/9 3/9 3/9 3/9 3 3 3",
		"brief": "3/5 3/5 3/5 3/5", "muted": "3/6 3/6 3/6 3/6 !",
	} {
		play(l, Key{"HorizontalPodAutoscaler", "shop", name}, start, reconciles)
	}
	var names []string
	for _, o := range l.Report(start).Differing().Objects {
		names = append(names, o.Name)
	}
	if got := strings.Join(names, " "); got != "past muted long brief slight" {
		t.Errorf("got %s", got)
	}
	var text bytes.Buffer
	fatal.If(t, l.Report(start).WriteDiffering(&text))
	const unknown = "; no known input differs: they may have read at different instants, or remember different recommendations\n"
	const want = "OBJECT                               AGREES      NOW     BY  RECONCILES  WHY\n" +
		"HorizontalPodAutoscaler shop/past    yes         3 vs 3  6   2 of 7      3 here, 9 there" + unknown +
		"HorizontalPodAutoscaler shop/muted   no opinion  3 vs -  3   2 of 2      3 here, 6 there" + unknown +
		"HorizontalPodAutoscaler shop/long    no          3 vs 5  2   3 of 3      3 here, 5 there" + unknown +
		"HorizontalPodAutoscaler shop/brief   no          3 vs 5  2   1 of 1      3 here, 5 there" + unknown +
		"HorizontalPodAutoscaler shop/slight  no          3 vs 4  1   1 of 1      3 here, 4 there" + unknown +
		"5 of 7 shadows differ or did. 2 can't be compared now.\n"
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	text.Reset()
	if err := NewLedger().Report(start).WriteDiffering(&text); err != nil || text.String() != "0 of 0 shadows differ or did. 0 can't be compared now.\n" {
		t.Errorf("%v %q", err, text.String())
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
			"3 here, 5 there; no known input differs: they may have read at different instants, or remember different recommendations"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := NewLedger()
			key, told := Key{"Autoscaler", "shop", "web"}, ""
			for i := range 4 {
				change := l.Note(key, "x", Reconcile{At: start.Add(time.Duration(i) * period), Period: period, Ours: tt.ours, Theirs: tt.theirs})
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
		t.Errorf("%d spans hold %d and %d reconciles, want %d and %d", len(o.Timeline), agreed, diverged, o.Agreed, o.Diverged)
	}
	if first := o.Timeline[0].From; first.After(start) {
		t.Errorf("the timeline begins at %s, after the first reconcile", first)
	}
	// A very long period keeps reconciles open, but a bounded number.
	for i := range 10 * maxOpen {
		l.Note(key, "x", Reconcile{At: start.AddDate(1, 0, 0).Add(time.Duration(i) * time.Second), Period: 24 * time.Hour, Theirs: Side{Replicas: 1}})
	}
	if n := len(l.accounts[key].open); n > maxOpen {
		t.Errorf("%d reconciles are open", n)
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
	if err := l.Report(start).WriteText(&empty); err != nil || empty.String() != "No shadow has had a reconcile yet.\n" {
		t.Errorf("%v %q", err, empty.String())
	}
	play(l, Key{"HorizontalPodAutoscaler", "shop", "web"}, start, "3 3/9 3/9 3/9 3/9 3 3 3 4/5 4/5 4/5 4/5")
	play(l, Key{"Autoscaler", "shop", "api"}, start, "3 3 3")
	play(l, Key{"Autoscaler", "shop", "new"}, start, "3 ? ?")
	var text bytes.Buffer
	fatal.If(t, l.Report(start).WriteText(&text))
	const want = `OBJECT                            AGAINST  AGREES      NOW     RECONCILES  AGREED  WORST  SINCE                 OVER TIME
Autoscaler shop/api               x        yes         3 vs 3  3           100%    0      2026-01-01T00:00:00Z  .
Autoscaler shop/new               x        no opinion  - vs 3  1           100%    0      2026-01-01T00:00:00Z  .
HorizontalPodAutoscaler shop/web  x        no          4 vs 5  9           66%     6      2026-01-01T00:00:00Z  5.X

Autoscaler shop/new:
  2 reconciles not compared because a side had no opinion, the last one here: no metric

HorizontalPodAutoscaler shop/web:
  from 2026-01-01T00:00:15Z to 2026-01-01T00:00:30Z, 2 reconciles, by up to 6: 3 here, 9 there; no known input differs: they may have read at different instants, or remember different recommendations
  from 2026-01-01T00:02:00Z and goes on, 1 reconciles, by up to 1: 4 here, 5 there; no known input differs: they may have read at different instants, or remember different recommendations
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	data, err := json.Marshal(l.Report(start))
	fatal.If(t, err)
	var back Report
	if err := json.Unmarshal(data, &back); err != nil || len(back.Objects) != 3 || back.Objects[2].Name != "web" || back.Objects[1].Ours.NoOpinion != "no metric" {
		t.Errorf("%v %s", err, data)
	}
}

func TestWhatWasNeverComparedAgreesWithNothing(t *testing.T) {
	r := &Report{Objects: []Object{{Ours: Side{Replicas: 5}, Theirs: Side{Replicas: 2}, Agrees: true}}}
	var text, differing bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "?       5 vs 2  0 ") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if err := r.WriteDiffering(&differing); err != nil || differing.String() != "0 of 1 shadows differ or did. 1 can't be compared now.\n" {
		t.Errorf("%v\n%s", err, differing.String())
	}
}
