package faults

import (
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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

// flip flips a bit of the record's byte, from the end if the index is negative.
func flip(i int) func(string) string {
	return func(record string) string {
		raw := []byte(record)
		raw[(i+len(raw))%len(raw)] ^= 1
		return string(raw)
	}
}

var damages = []damage{
	{name: "a flipped bit within the history", of: flip(versionLength + 20)},
	{name: "a flipped bit at the end", of: flip(-1)},
	{name: "a history that is cut short", of: func(record string) string { return record[:len(record)-10] }},
	{name: "a version without a history", of: func(record string) string { return record[:versionLength] }},
	{name: "a record that is cut short", of: func(record string) string { return record[:5] }},
	{name: "an empty string", of: func(string) string { return "" }},
	{name: "a string of somebody else's", of: func(string) string { return "hello, world, this is no record" }},
	{name: "a short string of somebody else's", of: func(string) string { return "hello" }},
	{name: "a record of a newer format", newer: true, of: func(record string) string { return "\x02" + record[1:] }},
	{name: "a history of a newer format", newer: true, of: func(record string) string {
		return record[:versionLength] + "\x7f" + record[versionLength+1:]
	}},
	{name: "a list", put: func(t *testing.T, r *rig, key, record string) {
		r.do(t, "DEL", key)
		r.do(t, "RPUSH", key, record, record)
	}},
	{name: "a hash", put: func(t *testing.T, r *rig, key, record string) {
		r.do(t, "DEL", key)
		r.do(t, "HSET", key, "field", record)
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

// A list names it, so that it is found and can be deleted.
func TestADamagedRecordIsListed(t *testing.T) {
	t.Parallel()
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			r := sharedRig(t)
			s := r.start(t, generous)
			b := newBook()
			must(t, s.batch(t.Context(), b, b.requests(append([]string{damaged}, healthy...)...))...)
			d.do(t, r)
			targets, err := s.list(t.Context())
			must(t, err)
			got := make(map[string]*setpointv1.Target)
			for _, target := range targets {
				got[target.GetName()] = target
			}
			if len(targets) != 3 || got[damaged] == nil || got[damaged].GetStatus() != nil || got[healthy[0]].GetStatus() == nil || got[healthy[1]].GetStatus() == nil {
				t.Errorf("listed are %v", targets)
			}
		})
	}
}

// An instance with the target in its cache notices that the record is another one if its
// version differs; otherwise it writes its own history, which is the previous content.
func TestAnInstanceThatRemembersATargetDoesNotHideItsDamage(t *testing.T) {
	t.Parallel()
	for _, d := range damages {
		for _, a := range askings {
			t.Run(d.name+", "+a.name, func(t *testing.T) {
				t.Parallel()
				r := sharedRig(t)
				s := r.start(t, generous)
				b := newBook()
				names := append([]string{damaged}, healthy...)
				for range 2 {
					must(t, s.batch(t.Context(), b, b.requests(names...))...)
				}
				version := r.record(t, damaged)[:versionLength]
				dump := d.do(t, r)
				asked := b.requests(names...)
				errs := a.ask(t.Context(), s, b, asked)
				must(t, errs[1:]...)
				if errs[0] == nil {
					if !strings.HasPrefix(r.record(t, damaged), version[:1]) {
						t.Errorf("%q was written over", dump)
					}
					b.retryAll(t, s)
					b.check(t, r)
					return
				}
				refused(t, unreadable, errs[0])
				if got := r.dump(t, damaged); got != dump {
					t.Errorf("what could not be read was changed: %q, now %q", dump, got)
				}
				b.forget(damaged)
				b.check(t, r)
			})
		}
	}
}

// A damaged log entry affects the entry or the log, not the decisions.
func TestADamagedLogHarmsNoDecision(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s := r.start(t, generous)
	b := newBook()
	must(t, s.recommend(t.Context(), b, b.request(damaged)), s.recommend(t.Context(), b, b.request(damaged)))
	_, err := s.decisions(t.Context(), damaged)
	must(t, err)
	log := strings.Replace(r.key(t, damaged), "}h:", "}l:", 1)
	// An entry as far as the store is concerned: a format, a number past all others, and a value.
	r.do(t, "RPUSH", log, "\x01\x1f\xff\xff\xff\xff\xff\xff\xff\xff no decision")
	logged, err := s.decisions(t.Context(), damaged)
	must(t, err)
	if len(logged) != 2 {
		t.Errorf("logged are %v", logged)
	}
	r.do(t, "DEL", log)
	r.do(t, "SET", log, "no log")
	for range 3 {
		must(t, s.recommend(t.Context(), b, b.request(damaged)))
	}
	_, err = s.decisions(t.Context(), damaged)
	refused(t, unreadable, err)
	b.check(t, r)
	must(t, s.remove(t.Context(), damaged), s.recommend(t.Context(), newBook(), newBook().request(damaged)))
	_, err = s.decisions(t.Context(), damaged)
	must(t, err)
}
