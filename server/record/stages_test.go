package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
)

// randomAdjusted is what stages made of a decision; often nil.
func randomAdjusted(random *rand.Rand) *recommender.Adjusted {
	if random.IntN(2) == 0 {
		return nil
	}
	text := func() string { return []string{"", "x", "ä€\x00", "External:queue"}[random.IntN(4)] }
	a := &recommender.Adjusted{Plain: random.Int32() - 1<<30}
	for range random.IntN(recommender.MaxAdjustments + 1) {
		one := recommender.Adjustment{
			Stage: recommender.Stage(random.IntN(256)), Before: random.Int32N(100) - 1, After: random.Int32N(100) - 1,
			Rule: text(), Metric: text(), Message: text(),
		}
		if random.IntN(2) == 0 {
			one.Until = time.UnixMilli(random.Int64N(1 << 43)).UTC()
		}
		a.Adjustments = append(a.Adjustments, one)
	}
	return a
}

// withStages is a record with everything that stages add.
func withStages() (plain, staged Record) {
	plain = recordOfFormat1()
	plain.Interval, plain.LastChange = 15_000, 1
	staged = recordOfFormat1()
	staged.Interval, staged.LastChange = 15_000, 1
	staged.Stages = []byte("what stages remember")
	staged.Adjusted = &recommender.Adjusted{Plain: 20, Adjustments: []recommender.Adjustment{
		{Stage: recommender.StageBounds, Rule: "schedule/office", Before: 2, After: 8, Message: "raised", Until: time.UnixMilli(1_800_000_000_000).UTC()},
		{Stage: recommender.StageFreshness, Rule: "External:queue", Metric: "External:queue", Before: -1, After: -1, Message: "old"},
	}}
	staged.Pending.Outside = true
	staged.Answers[0].Adjusted = &recommender.Adjusted{Plain: 5}
	return plain, staged
}

// An older version, which knows none of the fields of stages, reads all the rest: they come after
// everything else, and unknown ones are skipped.
func TestAnOlderVersionReadsRecordsWithStages(t *testing.T) {
	plain, staged := withStages()
	before, with := withoutChecksum(&plain), withoutChecksum(&staged)
	if !bytes.HasPrefix(with, before) {
		t.Fatalf("the fields of stages are not at the end:\n%x\n%x", with, before)
	}
	tail := bytes.Clone(with[len(before):])
	var tags []byte
	for at := 0; at < len(tail); {
		tags = append(tags, tail[at])
		tail[at] += 64 // one that nobody knows
		length, n := binary.Uvarint(tail[at+1:])
		at += 1 + n + int(length)
	}
	if !slices.Equal(tags, []byte{4, 5, 6, 7}) {
		t.Fatalf("the tags are %d", tags)
	}
	got, err := Decode(withChecksum(slices.Concat(before, tail)))
	fatal.If(t, err)
	equal(t, "the record", got, plain)
	got, err = Decode(withChecksum(with))
	fatal.If(t, err)
	equal(t, "the record with stages", got, staged)
}

// Without stages there is nothing of them.
func TestNoStagesTakeNoBytes(t *testing.T) {
	h := recordOfFormat1()
	length := len(Append(nil, &h))
	h.Stages = []byte{}
	if with := len(Append(nil, &h)); with != length {
		t.Errorf("no state takes %d bytes", with-length)
	}
}

func TestCorruptStagesAreRefused(t *testing.T) {
	_, staged := withStages()
	staged.Stages, staged.Adjusted, staged.Pending.Outside, staged.Answers[0].Adjusted = nil, nil, false, nil
	with := func(h *Record, tail ...byte) error {
		_, err := Decode(withChecksum(append(withoutChecksum(h), tail...)))
		return err
	}
	none := recordOfFormat1()
	none.Interval, none.Pending, none.Answers = 15_000, nil, nil
	one := []byte{12, 1, 2, 0, 0, 0, 0} // override, -1 → 1, no texts, no end
	for name, c := range map[string]struct {
		h    *Record
		tail []byte
		ok   bool
	}{
		"an adjustment":              {&staged, append([]byte{5, 8, 40}, one...), true},
		"the plain count alone":      {&staged, []byte{5, 1, 40}, true},
		"no plain count":             {&staged, []byte{5, 0}, false},
		"half an adjustment":         {&staged, []byte{5, 5, 40, 12, 1, 2, 0}, false},
		"a text beyond its field":    {&staged, []byte{5, 8, 40, 12, 1, 2, 9, 'x', 0, 0}, false},
		"too many":                   {&staged, append([]byte{5, 232, 1, 40}, bytes.Repeat(one, recommender.MaxAdjustments+1)...), false},
		"no state":                   {&staged, []byte{4, 0}, false},
		"a length beyond the end":    {&staged, []byte{4, 200, 1}, false},
		"outside":                    {&staged, []byte{6, 0}, true},
		"outside with a value":       {&staged, []byte{6, 1, 1}, false},
		"outside, nothing pending":   {&none, []byte{6, 0}, false},
		"an answer":                  {&staged, []byte{7, 3, 0, 1, 40}, true},
		"no answer":                  {&staged, []byte{7, 0}, false},
		"an answer that is not":      {&staged, []byte{7, 3, 1, 1, 40}, false},
		"an answer of no record":     {&none, []byte{7, 3, 0, 1, 40}, false},
		"an empty answer":            {&staged, []byte{7, 2, 0, 0}, false},
		"an answer beyond its field": {&staged, []byte{7, 3, 0, 9, 40}, false},
		"out of order":               {&staged, []byte{6, 0, 5, 1, 40}, false},
		"twice":                      {&staged, []byte{6, 0, 6, 0}, false},
	} {
		if err := with(c.h, c.tail...); c.ok != (err == nil) || err != nil && !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
