package stages_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// What a decision tells of its overrides is enough to decide so again: the count, the sentences, the reason.
func TestOverridesAreRetold(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 7))
	some := func(all ...string) string { return all[r.IntN(len(all))] }
	acted := map[string]int{}
	for i := range 20_000 {
		g := newTarget(t)
		for range 1 + r.IntN(3) {
			o := stages.Override{
				Level: stages.Level(1 + r.IntN(3)), Pin: -1, Floor: -1, Ceiling: -1, Start: noon.Add(-time.Hour), Created: noon.Add(-time.Duration(r.IntN(3600)) * time.Second),
				Expires: noon.Add(time.Second + time.Duration(r.Int64N(int64(48*time.Hour)))), Author: some("", "alice", "a by b until c", `"q" (override x)`),
				Reason: some("", "migration", `by x until 2026-11-23T14:00:00Z: "y" (override z); `, "pin of 3\nfloor of 9 \\", strings.Repeat(`long "é" `, 60)),
			}
			o.Name = map[stages.Level]string{
				stages.OfCluster: "clusters/demo", stages.OfNamespace: "clusters/demo/namespaces/shop", stages.OfTarget: "clusters/demo/namespaces/shop/targets/web",
			}[o.Level] + "/overrides/" + some("a", "pin-of-3", "by-9", "no-scale-down")
			switch r.IntN(8) {
			case 0:
				o.Hold = true
			case 1, 2:
				o.Pin = r.Int32N(30)
			case 3:
				o.Floor = r.Int32N(30)
			case 4:
				o.Ceiling = r.Int32N(30)
			case 5:
				o.NoScaleDown = true
			case 6:
				o.NoScaleUp = true
			default:
				o.Floor, o.Ceiling = r.Int32N(30), r.Int32N(30)
			}
			g.around.Overrides = append(g.around.Overrides, o)
		}
		current, queue := 1+r.Int32N(25), r.Int64N(300)
		first := g.ask(noon, current, queue)
		message := ""
		for _, c := range first.Status.Conditions {
			if c.Type == stages.Overridden && c.Status == recommender.ConditionTrue {
				message = c.Message
				acted[c.Reason]++
			}
		}
		again := newTarget(t)
		again.around.Overrides = stages.Retold(message, first.Reason)
		second := again.ask(noon, current, queue)
		for _, d := range []*recommender.Decision{&first, &second} {
			d.Adjusted.Overrides = nil              // retold ones have other creations and ends
			for j := range d.Adjusted.Adjustments { // it is told in whole seconds
				d.Adjusted.Adjustments[j].Until = d.Adjusted.Adjustments[j].Until.Truncate(time.Second)
			}
		}
		if !reflect.DeepEqual(first.Status.Conditions, second.Status.Conditions) || first.Reason != second.Reason || first.Desired != second.Desired || !reflect.DeepEqual(first.Adjusted, second.Adjusted) {
			t.Fatalf("%d: %+v of %d with %d:\n%v %q\n%+v\nretold %+v:\n%v %q\n%+v", i, g.around.Overrides, current, queue, first.Desired, first.Reason, toldBy(&first), again.around.Overrides, second.Desired, second.Reason, toldBy(&second))
		}
	}
	for _, reason := range []string{"Held", "Pinned", "Floor", "Ceiling", "Contradiction", "NoScaleDown", "NoScaleUp"} {
		if acted[reason] < 100 {
			t.Errorf("%s is tried %d times", reason, acted[reason])
		}
	}
}

func toldBy(d *recommender.Decision) string {
	return fmt.Sprintf("%+v\n%+v", d.Adjusted, d.Status.Conditions)
}

// Texts that are no decision's put nothing in force.
func TestOnlySentencesAreRetold(t *testing.T) {
	for _, text := range []string{"", "held", "held at 9 by x", strings.Repeat("by until ", 1<<12), "pinned to 99999999999999999999 by x until then: \"\" (override a); "} {
		for _, o := range stages.Retold(text, text) {
			if o.Hold || o.Pin >= 0 || o.Floor >= 0 || o.Ceiling >= 0 || o.NoScaleDown || o.NoScaleUp {
				t.Errorf("%.40q: %+v", text, o)
			}
		}
	}
}
