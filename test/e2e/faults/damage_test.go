package faults

import (
	"strings"
	"testing"

	"google.golang.org/grpc/status"
)

// damaged is the target whose record is damaged, and healthy are others.
var (
	damaged = target("damaged")
	healthy = []string{target("healthy-1"), target("healthy-2")}
)

// damage is a damaged content of a record.
type damage struct {
	name string
	// of makes it of a record. Nil: see put.
	of func(record string) string
	// put puts it in the record's place. Nil: as a string.
	put func(t *testing.T, r *rig, key, record string)
	// newer reports that a newer version may have written it: the error must say so, lest
	// callers delete it.
	newer bool
}

func (d damage) do(t *testing.T, r *rig) (dump string) {
	t.Helper()
	key, record := r.key(t, damaged), r.record(t, damaged)
	if d.put != nil {
		d.put(t, r, key, record)
	} else {
		r.do(t, "SET", key, d.of(record))
	}
	return r.dump(t, damaged)
}

// dump returns the content at the target's key, of any type.
func (r *rig) dump(t *testing.T, target string) string {
	t.Helper()
	key := r.key(t, target)
	if key == "" {
		return ""
	}
	text, _ := r.do(t, "DUMP", key).(string)
	return text
}

var damages = []damage{
	{name: "a string of somebody else's", of: func(string) string { return "hello, world, this is no record" }},
	{name: "a record of a newer format", newer: true, of: func(record string) string { return "\x02" + record[1:] }},
	{name: "a list", put: func(t *testing.T, r *rig, key, record string) {
		r.do(t, "DEL", key)
		r.do(t, "RPUSH", key, record, record)
	}},
}

func TestADamagedRecordHarmsItsTargetOnly(t *testing.T) {
	t.Parallel()
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			r := sharedRig(t)
			writer := r.start(t, generous)
			b := newBook()
			names := append([]string{damaged}, healthy...)
			for range 2 {
				must(t, writer.batch(t.Context(), b, b.requests(names...))...)
			}
			answer, err := writer.recommendations.Recommend(t.Context(), wants(damaged, "", 5))
			must(t, err)
			pending := answer.GetRecommendationId()
			dump := d.do(t, r)
			b.forget(damaged)

			s := r.start(t, generous) // without a cache
			unread := func(errs ...error) {
				t.Helper()
				refused(t, unreadable, errs...)
				for _, err := range errs {
					message := status.Convert(err).Message()
					if d.newer && !strings.Contains(message, "newer version") || !d.newer && !strings.Contains(message, "delete the target") {
						t.Errorf("the caller is told: %s", message)
					}
				}
			}
			unread(s.recommend(t.Context(), newBook(), newBook().request(damaged)))
			dry := wants(damaged, "", 7)
			dry.DryRun = true
			_, err = s.recommendations.Recommend(t.Context(), dry)
			unread(err)
			unread(s.report(t.Context(), damaged, pending))
			_, err = s.target(t.Context(), damaged)
			unread(err)
			_, err = s.decisions(t.Context(), damaged)
			unread(err)
			for _, a := range askings[1:] {
				asked := append(b.requests(healthy...), newBook().request(damaged), b.request(healthy[0]))
				errs := a.ask(t.Context(), s, b, asked)
				unread(errs[2])
				must(t, errs[0], errs[1], errs[3])
			}
			if got := r.dump(t, damaged); got != dump {
				t.Errorf("what could not be read was changed: %q, now %q", dump, got)
			}
			s.awaitReady(t)
			if stats := s.store.Stats(); stats.BreakerTrips != 0 {
				t.Errorf("the breaker opened: %+v", stats)
			}

			must(t, s.remove(t.Context(), damaged))
			after := newBook()
			must(t, s.recommend(t.Context(), after, after.request(damaged)))
			after.check(t, r)
			b.check(t, r)
		})
	}
}
