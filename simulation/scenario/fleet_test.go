package scenario

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/simulation"
)

func TestEverythingThatAFleetCanSay(t *testing.T) {
	t.Parallel()
	s, err := Read(t.Context(), "s.yaml", append(scenario("  - constant: 6"), []byte(`
fleet:
  staleAfter: 1m
  lostAfter: 10m
  maxMoves: 2
  rules: [shift, karmada]
  scopes: {queue: GLOBAL, backlog: PER_MEMBER}
  members:
    - {name: west, drained: true, own: {minReplicas: 2, maxReplicas: 9}, weight: 3, minReplicas: 1, maxReplicas: 20, replicas: 4, startup: 90s, startupP95: 2m, slots: 10}
    - name: east
      load: [{constant: 5}, {spike: {at: 1h, height: 10, for: 10m}}]
events:
  - {at: 1h, cluster: down, member: west, for: 10m}
  - {at: 2h, calls: gone, member: west, for: 10m}
  - {at: 3h, calls: late, by: 40s, member: east, for: 10m}
  - {at: 4h, writes: late, by: 50s, member: east, for: 10m}
  - {at: 5h, kill: 1, member: east}
`)...), nil, nothing)
	fatal.If(t, err)
	f := s.Fleet
	if f.StaleAfter != time.Minute || f.LostAfter != 10*time.Minute || f.MaxMoves != 2 || !slices.Equal(f.Rules, []simulation.FleetRule{simulation.Shift, simulation.Karmada}) ||
		!slices.Equal(f.Global, []string{"queue"}) {
		t.Errorf("%+v", f)
	}
	east, west := f.Members[0], f.Members[1]
	if own := east.Own; own == nil || own.At(0) != 5 || own.At(65*time.Minute) != 15 || s.Load.At(65*time.Minute) != 6 {
		t.Errorf("the load of east: %v, of all: %v", own, s.Load)
	}
	if east.Own = nil; !reflect.DeepEqual(east, simulation.FleetMember{Name: "east", Weight: 1, Max: -1}) {
		t.Errorf("%+v", east)
	}
	four, ten := int32(4), int32(10)
	if want := (simulation.FleetMember{
		Name: "west", Weight: 3, Min: 1, Max: 20, OwnMin: 2, OwnMax: 9, Drained: true, Replicas: &four, Slots: &ten,
		Startup: &simulation.Startup{Kind: simulation.LogNormalStartup, From: 90 * time.Second, To: 2 * time.Minute},
	}); !reflect.DeepEqual(west, want) {
		t.Errorf("%+v, want %+v", west, want)
	}
	for i, want := range []simulation.Event{
		{Kind: simulation.ClusterDown, Member: "west", For: 10 * time.Minute}, {Kind: simulation.CallsGone, Member: "west", For: 10 * time.Minute},
		{Kind: simulation.CallsLate, Member: "east", For: 10 * time.Minute, By: 40 * time.Second},
		{Kind: simulation.WritesLate, Member: "east", For: 10 * time.Minute, By: 50 * time.Second}, {Kind: simulation.KillPods, Member: "east", Pods: 1},
	} {
		if want.At = time.Duration(i+1) * time.Hour; s.Events[i] != want {
			t.Errorf("event %d: %+v, want %+v", i, s.Events[i], want)
		}
	}
}

// Load of a member's own has the noise of the scenario, drawn apart from the others'.
func TestOwnLoadHasNoise(t *testing.T) {
	t.Parallel()
	const text = `duration: 10h
noise: {variation: 0.2, every: 1m}
fleet: {members: [{name: a, load: [{constant: 100}]}, {name: b, load: [{constant: 100}]}, {name: c}]}
`
	s, err := Read(t.Context(), "s.yaml", append(scenario("  - constant: 100"), []byte(text)...), nil, nothing)
	fatal.If(t, err)
	differ, mean := 0, 0.0
	for minute := range 600 {
		a, b, common := s.Fleet.Members[0].Own.At(time.Duration(minute)*time.Minute), s.Fleet.Members[1].Own.At(time.Duration(minute)*time.Minute), s.Load.At(time.Duration(minute)*time.Minute)
		if a != b && a != common && a != 100 {
			differ++
		}
		mean += a / 600
	}
	if differ < 590 || mean < 95 || mean > 105 || s.Fleet.Members[2].Own != nil {
		t.Errorf("differs at %d of 600 instants, %g on average", differ, mean)
	}
}

func TestFleetsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"fleet: {}":                                                          "fleet: members is missing",
		"fleet: {members: [{weight: 1}]}":                                    "fleet.members[0]: name is missing",
		"fleet: {members: [{name: a, weight: 1001}]}":                        "fleet.members[0].weight: must be",
		"fleet: {members: [{name: a, load: [{constant: -1}]}]}":              "fleet.members[0].load[0].constant: must be",
		"fleet: {members: [{name: a, load: [{csv: {file: x}}]}]}":            "fleet.members[0].load[0].csv: x: no such file",
		"fleet: {members: [{name: a, startupP95: 5s}]}":                      "fleet.members[0]: startupP95 needs startup",
		"fleet: {members: [{name: a}], rules: [hold, hold]}":                 "fleet.rules[1]: is named twice",
		"fleet: {members: [{name: a}], rules: [fair]}":                       "fleet.rules[0]: must be one of [hold shift surviveOne karmada independent]",
		"fleet: {members: [{name: a}], scopes: {queue: global}}":             "fleet.scopes.queue: must be one of [GLOBAL PER_MEMBER]",
		"fleet: {members: [{name: a, drained: 1}]}":                          "fleet.members[0].drained: must be",
		"fleet: {members: [{name: a, own: {replicas: 1}}]}":                  "unknown key replicas",
		"fleet: {members: [{name: a}], onLost: SHIFT}":                       "unknown key onLost",
		"fleet: {members: [" + strings.Repeat("{name: a}, ", 65) + "]}":      "fleet.members[64]: there are more than 64",
		"events: [{at: 1s, cluster: down, member: a}]":                       `needs "for"`,
		"events: [{at: 1s, calls: late, for: 1m, member: a}]":                `needs "by"`,
		"events: [{at: 1s, calls: gone, by: 1s, for: 1m, member: a}]":        `needs "by"`,
		"events: [{at: 1s, cluster: down, calls: gone, for: 1m, member: a}]": "must have one of kill, crash",
		"events: [{at: 1s, cluster: slow, for: 1m, member: a}]":              "must be one of [down]",
		"duration: 100h\nfleet: {members: [" + strings.Repeat("{name: a, load: [{sawtooth: {low: 0, high: 1, period: 1s}}]}, ", 3) + "]}":         "members[2].load[0].sawtooth: the parts, up to this one, have more than 2000000 points together",
		"noise: {variation: 0.1, every: 0s}\nfleet: {members: [{name: a, load: [{constant: 1}]}]}":                                                "noise every 0s: must be at least 1s",
		"duration: 200h\nnoise: {variation: 0.1, every: 1s}\nfleet: {members: [" + strings.Repeat("{name: a, load: [{constant: 1}]}, ", 3) + "]}": "members[2].load: with noise every 1s the parts, up to this one, have more than 2000000 points together",
	} {
		_, err := Read(t.Context(), "s.yaml", append(scenario("  - constant: 1"), []byte(text+"\n")...), nil, nothing)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}
