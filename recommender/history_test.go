package recommender

import (
	"testing"
	"time"
)

// A new recommendation takes the last slot that may be reused, or a new one.
func TestSlotsOfRecommendations(t *testing.T) {
	const window = 10 * time.Second
	slots := func(ages ...time.Duration) (s []TimedRecommendation) {
		for i, age := range ages {
			s = append(s, TimedRecommendation{int32(i), int64(time.Minute - age)})
		}
		return s
	}
	for _, tt := range []struct {
		name                 string
		slots                []TimedRecommendation
		upWindow, downWindow time.Duration
		without, with        int
	}{
		{"none", nil, 0, window, -1, -1},
		{"none old enough", slots(5*time.Second, window), 0, window, -1, -1},
		{"the last of the old ones", slots(window+1, time.Hour, window+1, 5*time.Second), 0, window, 2, 2},
		{"also where an older one comes first", slots(time.Hour, 0, window+2, 0), 0, window, 2, 2},
		{"with behavior both windows must be over", slots(window + 1), 2 * window, window, 0, -1},
	} {
		now := int64(time.Minute)
		equal(t, tt.name+", without behavior", stabilizeWithoutBehavior(now, &History{Recommendations: tt.slots}, tt.downWindow, 5).slot, tt.without)
		equal(t, tt.name+", with behavior", stabilizeWithBehavior(now, &History{Recommendations: tt.slots}, tt.upWindow, tt.downWindow, 5, 5).slot, tt.with)
	}
	before := slots(0, 1)
	equal(t, "in a slot", recordRecommendation(nil, before, 0, TimedRecommendation{9, 9}), []TimedRecommendation{{9, 9}, before[1]})
	equal(t, "in a new one", recordRecommendation(nil, before, -1, TimedRecommendation{9, 9}), append(slots(0, 1), TimedRecommendation{9, 9}))
	equal(t, "the slots before", before, slots(0, 1))
}

// A mark is for good, the last marked slot is taken.
func TestSlotsOfEvents(t *testing.T) {
	const period = 60
	second := func(n int64) int64 { return n * int64(time.Second) }
	event := ScaleEvent{Change: 9, At: second(100)}
	for _, tt := range []struct {
		name         string
		events, want []ScaleEvent
	}{
		{"the first", nil, []ScaleEvent{event}},
		{
			"one exactly as old as the period stays",
			[]ScaleEvent{{Change: 1, At: second(40)}}, []ScaleEvent{{Change: 1, At: second(40)}, event},
		},
		{"an older one is overwritten", []ScaleEvent{{Change: 1, At: second(40) - 1}}, []ScaleEvent{event}},
		{
			"of several the last, the others are marked",
			[]ScaleEvent{{Change: 1, At: 1}, {Change: 2, At: 0}, {Change: 3, At: second(99)}},
			[]ScaleEvent{{Change: 1, At: 1, Outdated: true}, event, {Change: 3, At: second(99)}},
		},
		{
			"a mark stays when the period grows",
			[]ScaleEvent{{Change: 1, At: second(99), Outdated: true}, {Change: 2, At: second(99)}}, []ScaleEvent{event, {Change: 2, At: second(99)}},
		},
	} {
		equal(t, tt.name, recordScaleEvent(tt.events, event, period, false), tt.want)
	}
}

// An event is kept for the longest period of its own direction, although the
// other direction's policies count it too.
func TestAnEventMayBeForgottenByTheOtherDirection(t *testing.T) {
	in := wanting(10)
	in.Spec.Behavior = behavior(policies(ScalingPolicy{PodsPolicy, 4, 10}), policies(ScalingPolicy{PodsPolicy, 2, 600}))
	follow(t, in, []step{
		{at: 0, wants: 14, want: 14},
		{at: time.Second, wants: 1, want: 8},        // from 10, before the 4 that came
		{at: 12 * time.Second, wants: 14, want: 12}, // takes the slot of those 4
		{at: 13 * time.Second, wants: 1, want: 12},  // had it been kept: 8
	})
}

func TestIDs(t *testing.T) {
	id := ID{0: 0xab, 15: 1}
	const text = "ab000000000000000000000000000001"
	equal(t, "its text", id.String(), text)
	equal(t, "that of none", ID{}.String(), "")
	if parsed, ok := ParseID(text); !ok || parsed != id {
		t.Errorf("ParseID(%q) = %v, %t", text, parsed, ok)
	}
	for _, bad := range []string{"", "ab", text + "0", "AB000000000000000000000000000001", "zz000000000000000000000000000001", "00000000000000000000000000000000"} {
		if parsed, ok := ParseID(bad); ok {
			t.Errorf("ParseID(%q) = %v", bad, parsed)
		}
	}
}

func TestProfiles(t *testing.T) {
	names := ProfileNames()
	equal(t, "the reference", names[0], "v1.36")
	for _, name := range names {
		if p, ok := ProfileByName(name); !ok || p.Name() != name {
			t.Errorf("ProfileByName(%q) = %v, %t", name, p, ok)
		}
	}
	if _, ok := ProfileByName("v0"); ok {
		t.Error("there is a profile v0")
	}
	equal(t, "the default", decide(wanting(1)).Explanation.Profile, "v1.36")
}

func TestDefaultsOfTheAPI(t *testing.T) {
	equal(t, "metrics", DefaultMetrics(), []MetricSpec{cpuUtilization(80)})
	equal(t, "scaling up", DefaultScaleUp(), ScalingRules{
		StabilizationWindowSeconds: new(int32(0)), SelectPolicy: MaxChange,
		Policies: []ScalingPolicy{{PodsPolicy, 4, 15}, {PercentPolicy, 100, 15}},
	})
	equal(t, "scaling down", DefaultScaleDown(), ScalingRules{SelectPolicy: MaxChange, Policies: []ScalingPolicy{{PercentPolicy, 100, 15}}})
	equal(t, "options", DefaultOptions(), Options{
		Tolerance: 0.1, CPUInitializationPeriod: 5 * time.Minute, InitialReadinessDelay: 30 * time.Second, DownscaleStabilization: 5 * time.Minute,
		UpscaleDelay: 3 * time.Minute, DownscaleDelay: 5 * time.Minute,
	})
}
