package record

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// seen is the record of an evaluated target.
func seen(change func(*Record)) Record {
	r := Record{History: recommender.History{Seen: true, Initialized: true, Updated: t0}}
	change(&r)
	return r
}

func answers(a ...Answer) func(*Record) { return func(r *Record) { r.Answers = a } }

func TestMergingAnswers(t *testing.T) {
	for _, tt := range []struct {
		name          string
		stored, local Record
		want          string
	}{
		{
			"by instant, of one request stored's",
			seen(answers(Answer{RequestID: "a", At: 1}, Answer{RequestID: "c", At: 3, Reason: "+"})),
			seen(answers(Answer{RequestID: "b", At: 2}, Answer{RequestID: "c", At: 3, Reason: "-"}, Answer{RequestID: "d", At: 4})),
			"abc+d",
		},
		{
			"of one instant local's own come first",
			seen(answers(Answer{RequestID: "a", At: 1}, Answer{RequestID: "c", At: 1})),
			seen(answers(Answer{RequestID: "b", At: 1}, Answer{RequestID: "d", At: 1})),
			"bdac",
		},
		{
			// A swap succeeded and its reply was lost; the decision was repeated without the store.
			"of one decision local's, which the caller got",
			seen(answers(Answer{RequestID: "r", ID: recommender.ID{1}, At: 1, Reason: "3"})),
			seen(answers(Answer{RequestID: "r", ID: recommender.ID{1}, At: 1, Reason: "5"})),
			"r5",
		},
		{
			"of two decisions stored's",
			seen(answers(Answer{RequestID: "r", ID: recommender.ID{1}, At: 1, Reason: "3"})),
			seen(answers(Answer{RequestID: "r", ID: recommender.ID{2}, At: 1, Reason: "5"})),
			"r3",
		},
		{
			"and of two instants",
			seen(answers(Answer{RequestID: "r", ID: recommender.ID{1}, At: 1, Reason: "3"})),
			seen(answers(Answer{RequestID: "r", ID: recommender.ID{1}, At: 2, Reason: "5"})),
			"r3",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.stored.Answers[0]
			merged, ids := Merge(&tt.stored, &tt.local), ""
			for _, a := range merged.Answers {
				ids += a.RequestID + a.Reason
			}
			equal(t, "they", ids, tt.want)
			equal(t, "once more", Merge(&merged, &tt.local), merged)
			equal(t, "the stored ones", tt.stored.Answers[0], before)
		})
	}
}

// Retries are possible as long as an answer is kept: at least as many as either side
// had, and at least maxMergedAnswers.
func TestMergingBoundsAnswers(t *testing.T) {
	count := func(from, to, step int) Record {
		return seen(func(r *Record) {
			for i := from; i <= to; i += step {
				r.Answers = append(r.Answers, Answer{RequestID: fmt.Sprint(i), At: int64(i)})
			}
		})
	}
	for _, tt := range []struct {
		name                string
		stored, local, want Record
	}{
		{"all there is room for", count(1, 31, 2), count(2, 32, 2), count(1, 32, 1)},
		{"the newest of more", count(1, 39, 2), count(2, 40, 2), count(9, 40, 1)},
		{"as many as stored had", count(1, 50, 1), count(51, 53, 1), count(4, 53, 1)},
		{"as many as local had", count(51, 53, 1), count(1, 50, 1), count(4, 53, 1)},
	} {
		t.Run(tt.name, func(t *testing.T) { equal(t, "answers", Merge(&tt.stored, &tt.local).Answers, tt.want.Answers) })
	}
}

// The requests of the last decision and of the pending change are those of the side that it is from; so is what
// decided last.
func TestMergingRequests(t *testing.T) {
	stored, local := seen(func(*Record) {}), seen(func(*Record) {})
	stored.LastRequest, stored.PendingRequest, stored.Pending = "s", "s", &recommender.Pending{ID: recommender.ID{1}}
	local.LastRequest, local.Updated = "l", t0.Add(time.Second)
	local.Spec, local.Stages, local.Adjusted = SpecUse{Hash: 7}, []byte{1}, &recommender.Adjusted{Plain: 3}
	stored.Stages = []byte{2}
	merged := Merge(&stored, &local)
	equal(t, "the later decision's spec and stages", []any{merged.Spec, merged.Stages, merged.Adjusted}, []any{local.Spec, local.Stages, local.Adjusted})
	equal(t, "the later decision, stored's change", []string{merged.LastRequest, merged.PendingRequest}, []string{"l", "s"})
	merged = Merge(&local, &stored)
	equal(t, "the other way round", []string{merged.LastRequest, merged.PendingRequest}, []string{"l", "s"})
	local.PendingRequest, local.Pending = "l", &recommender.Pending{ID: recommender.ID{2}, At: 1}
	merged = Merge(&stored, &local)
	equal(t, "the later one of two changes", []any{merged.Pending.ID, merged.PendingRequest}, []any{recommender.ID{2}, "l"})
	local.PendingRequest, local.Pending = "", nil
	local.Settled = []recommender.Settled{{ID: recommender.ID{1}, Outcome: recommender.Applied}}
	merged = Merge(&stored, &local)
	equal(t, "of a change that one has settled", merged.PendingRequest, "")
}

func TestPropertyAnyRecordsMerge(t *testing.T) {
	random := newRandom(22)
	for range 1000 {
		a, b := randomRecord(random), randomRecord(random)
		a.Seen, b.Seen = true, true
		merged := Merge(&a, &b)
		if decoded, err := Decode(Append(nil, &merged)); err != nil || !reflect.DeepEqual(decoded, merged) {
			t.Fatalf("the encoding loses something (%v):\n got %+v\nwant %+v", err, decoded, merged)
		}
		if len(merged.Answers) > maxMergedAnswers {
			t.Fatalf("%d answers", len(merged.Answers))
		}
	}
}
