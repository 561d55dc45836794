package schedule

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

var seed = flag.Uint64("seed", 1, "the seed of random crons, and of the zones in tests that take some")

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	fatal.If(t, err)
	return at.UTC()
}

func compiled(t testing.TB, text Text) *Times {
	t.Helper()
	times, err := Compile(text)
	fatal.If(t, err)
	return times
}

// wallSet is a cron that matches without a library.
type wallSet struct{ minute, hour, day, month, weekday []int }

func (s *wallSet) text() string {
	field := func(values []int) string {
		if values == nil {
			return "*"
		}
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(values), "[]"), " ", ",")
	}
	return strings.Join([]string{field(s.minute), field(s.hour), field(s.day), field(s.month), field(s.weekday)}, " ")
}

func (s *wallSet) has(wall time.Time) bool {
	is := func(values []int, value int) bool { return values == nil || slices.Contains(values, value) }
	day, weekday := is(s.day, wall.Day()), is(s.weekday, int(wall.Weekday()))
	onDay := day && weekday
	if s.day != nil && s.weekday != nil {
		onDay = day || weekday
	}
	return is(s.minute, wall.Minute()) && is(s.hour, wall.Hour()) && is(s.month, int(wall.Month())) && onDay
}

// randomSet returns a cron that fires, most often in the night.
func randomSet(r *rand.Rand) *wallSet {
	for {
		if s := anySet(r); s.month == nil || s.day == nil || s.weekday != nil || slices.Min(s.day) < 29 {
			return s
		}
	}
}

func anySet(r *rand.Rand) *wallSet {
	some := func(low, high int) []int {
		var values []int
		for range 1 + r.IntN(3) {
			values = append(values, low+r.IntN(high-low+1))
		}
		slices.Sort(values)
		return slices.Compact(values)
	}
	s := &wallSet{minute: some(0, 59)}
	if r.IntN(3) > 0 {
		s.hour = some(0, 4)
	}
	if r.IntN(5) == 0 {
		s.day = some(1, 31)
	}
	if r.IntN(5) == 0 {
		s.weekday = some(0, 6)
	}
	if r.IntN(8) == 0 {
		s.month = some(1, 12)
	}
	return s
}

// walls walks a zone by minutes, and returns which wall times are reached for the first time.
type walls struct {
	zone   *time.Location
	latest time.Time
}

func (w *walls) reach(t time.Time) (reached []time.Time) {
	local := t.In(w.zone)
	wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
	if w.latest.IsZero() {
		w.latest = wall
		return []time.Time{wall}
	}
	for w.latest.Before(wall) {
		w.latest = w.latest.Add(time.Minute)
		reached = append(reached, w.latest)
	}
	return reached
}

// changesOf returns when the offset of a zone changes in 2020 to 2040.
func changesOf(zone *time.Location) (changes []time.Time) {
	end := time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC)
	for t := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(end); t = t.Add(24 * time.Hour) {
		if next := t.Add(24 * time.Hour); offset(zone, t) != offset(zone, next) {
			for !t.Equal(next) && offset(zone, t) == offset(zone, t.Add(time.Minute)) {
				t = t.Add(time.Minute)
			}
			changes = append(changes, t.Add(time.Minute))
			t = next.Add(-24 * time.Hour)
		}
	}
	return changes
}

// Around each change of a zone's clock, and on the last days of leap years, a cron fires when a walk
// over the minutes reaches one of its wall times for the first time.
func TestCronsFireAsAWalkOverMinutes(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 1))
	zones := strings.Fields(names)
	if !testlength.Full() {
		r.Shuffle(len(zones), func(i, j int) { zones[i], zones[j] = zones[j], zones[i] })
		zones = append(zones[:8], "Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "Africa/Casablanca", "Africa/El_Aaiun", "Australia/Sydney", "Pacific/Chatham", "America/Nuuk", "Antarctica/Troll")
		t.Logf("%d zones with the seed %d: FULL=1 takes all", len(zones), *seed)
	}
	changes, checks := 0, 0
	for _, name := range zones {
		zone, err := Zone(name)
		if err != nil {
			t.Fatal(name, err)
		}
		of := changesOf(zone)
		changes += len(of)
		if len(of) > 0 {
			of = append(of, time.Date(2040, 12, 31, 12, 0, 0, 0, time.UTC), time.Date(2048, 12, 31, 12, 0, 0, 0, time.UTC))
		}
		for _, change := range of {
			set := randomSet(r)
			c, err := parseCron(set.text())
			if err != nil {
				t.Fatal(set.text(), err)
			}
			cron := inZone{c, zone}
			w := walls{zone: zone}
			w.reach(change.Add(-26 * time.Hour))
			var last time.Time
			for at := change.Add(-26 * time.Hour); at.Before(change.Add(5 * time.Hour)); at = at.Add(time.Minute) {
				fires := slices.ContainsFunc(w.reach(at), set.has)
				near := at.After(change.Add(-3*time.Hour)) && at.Before(change.Add(3*time.Hour))
				if near || fires {
					checks++
				}
				if near {
					if got := cron.lastUpTo(at.Add(-time.Nanosecond)); !last.IsZero() && !got.Equal(last) {
						t.Fatalf("%s, %q: just before %s it fired last at %s, want %s", name, set.text(), at, got, last)
					}
				}
				if !fires {
					continue
				}
				if last.IsZero() {
					last = at
				}
				if got := cron.firstAfter(at.Add(-time.Nanosecond)); !got.Equal(at) {
					t.Fatalf("%s, %q: before %s it fires next at %s", name, set.text(), at, got)
				}
				if got := cron.firstAfter(last); last != at && !got.Equal(at) {
					t.Fatalf("%s, %q: after %s it fires next at %s, want %s", name, set.text(), last, got, at)
				}
				last = at
				if got := cron.lastUpTo(at); !got.Equal(at) {
					t.Fatalf("%s, %q: at %s it fired last at %s", name, set.text(), at, got)
				}
			}
		}
	}
	t.Logf("%d zones, %d changes, %d checks", len(names), changes, checks)
	if changes == 0 {
		t.Error("no zone changes")
	}
}

// What matches is what the library finds, in UTC.
func TestMatchesAreTheLibrarys(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 3))
	fields := [5][]string{
		{"*", "0", "*/7", "5-10,50", "59", "50-5"}, {"*", "0", "23", "*/5", "8-18", "22-2"}, {"*", "1", "31", "29,30", "*/3", "10-20/4"},
		{"*", "*", "2", "JAN-MAR", "4,6,9,11", "11-2"}, {"*", "*", "0", "7", "1-5", "5-7", "SAT", "*/2", "6-1"},
	}
	for range 3000 {
		var parts []string
		for _, some := range fields {
			parts = append(parts, some[r.IntN(len(some))])
		}
		text := strings.Join(parts, " ")
		c, err := parseCron(text)
		if err != nil {
			continue
		}
		c.spec.Location = time.UTC
		at := time.Date(2020+r.IntN(21), 1, 1+r.IntN(366), r.IntN(24), r.IntN(60), r.IntN(2)*r.IntN(60), 0, time.UTC)
		if got, want := c.after(at), c.spec.Next(at); !got.Equal(want) && !want.IsZero() {
			t.Fatalf("%q after %s: %s, the library finds %s", text, at, got, want)
		}
		if got, want := c.upTo(at), c.spec.Prev(at.Add(time.Second)); !got.Equal(want) && !want.IsZero() {
			t.Fatalf("%q up to %s: %s, the library finds %s", text, at, got, want)
		}
	}
}

// brute is whether a schedule is active, from all its starts and ends: in the order of the clock, also of those that
// clocks are set forward over.
func brute(times *Times, from, to time.Time, check func(at time.Time, active bool)) {
	var start time.Time
	w, active := walls{zone: times.zone}, false
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		for _, wall := range w.reach(at) {
			if times.start.upTo(wall).Equal(wall) {
				start, active = at, true
			}
			if times.duration == 0 && times.end.upTo(wall).Equal(wall) {
				active = false
			}
		}
		if times.duration > 0 {
			active = at.Before(start.Add(times.duration))
		}
		if !start.IsZero() {
			check(at, active)
		}
	}
}

// Periods are those of a walk over minutes, also with starts that prolong them and starts at ends; and what
// is found does not depend on what was asked for before.
func TestPeriodsAreThoseOfAWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 2))
	froms := []time.Time{time.Date(2026, 10, 23, 0, 0, 0, 0, time.UTC), time.Date(2027, 3, 27, 0, 0, 0, 0, time.UTC)}
	cases := []Text{
		{Cron: "*/5 * * * *", Duration: time.Minute}, {Cron: "*/5 * * * *", Duration: 5 * time.Minute},
		{Cron: "*/2 * * * *", Duration: time.Minute}, {Cron: "* * * * *", Duration: time.Minute},
		{Cron: "0 * * * *", Duration: time.Hour}, {Cron: "0 * * * *", Duration: 90 * time.Minute},
		{Cron: "* * * * *", EndCron: "* * * * *"}, {Cron: "*/3 * * * *", EndCron: "*/6 * * * *"},
		{Cron: "0 8,20 * * *", EndCron: "0 20 * * *"}, {Cron: "0 22 * * *", EndCron: "0 6 * * *"},
		// Around 02:00 to 03:00, which is left out on 28 March 2027.
		{Cron: "0 3 * * *", EndCron: "30 2 * * *"}, {Cron: "30 2 * * *", EndCron: "0 2 * * *"}, {Cron: "0 2 * * *", EndCron: "30 2 * * *"},
		{Cron: "30 2,22 * * *", EndCron: "45 2 * * *"}, {Cron: "0 8,12,14 * * *", EndCron: "0 12,14 * * *"},
		{Cron: "0,40 2 * * *", EndCron: "20 2 * * *"}, {Cron: "10 2 * * *", EndCron: "0,20 2 * * *"}, {Cron: "30 2 * * *", EndCron: "0 3 * * *"},
	}
	for range 12 {
		text := Text{Cron: randomSet(r).text(), EndCron: randomSet(r).text()}
		if r.IntN(2) == 0 {
			text.EndCron, text.Duration = "", time.Duration(1+r.IntN(300))*time.Minute
		}
		cases = append(cases, text)
	}
	for _, text := range cases {
		text.Zone = "Europe/Berlin"
		times, problems := compile(text)
		if never := strings.HasSuffix(fmt.Sprint(problems), "never active]"); !never && len(problems) > 0 {
			t.Fatal(problems)
		}
		for _, from := range froms {
			var before *Period
			var ended time.Time
			brute(times, from, from.Add(3*24*time.Hour), func(at time.Time, active bool) {
				p := times.At(at)
				if p.Active != active {
					t.Fatalf("%+v at %s: active %t, want %t", text, at, p.Active, active)
				}
				if fresh := times.search(at); fresh.Until != p.Until || fresh.Ended != p.Ended {
					t.Fatalf("%+v at %s: %+v if asked before, else %+v", text, at, p, fresh)
				}
				if before != nil && !before.Until.IsZero() {
					if at.Before(before.Until) != (before.Active == active) {
						t.Fatalf("%+v at %s: active %t, want that from %s", text, at, active, before.Until)
					}
				}
				if before != nil && before.Active && !active {
					ended = at
				}
				if !active && !ended.IsZero() && !p.Ended.Equal(ended) {
					t.Fatalf("%+v at %s: it ended at %s, want %s", text, at, p.Ended, ended)
				}
				if c := p.Changes(); !c.IsZero() && !c.After(at) || !p.Until.IsZero() && (c.IsZero() || c.After(p.Until)) {
					t.Fatalf("%+v at %s: %+v changes at %s", text, at, p, c)
				}
				before = &p
			})
		}
	}
}

// The end of a working day is known in its morning, though each start of it prolongs the one before.
func TestStartsThatProlongEachOtherEndAtTheLast(t *testing.T) {
	times := compiled(t, Text{Zone: "UTC", Cron: "0 8-17 * * *", Duration: 90 * time.Minute})
	for _, at := range []string{"2026-11-27T08:00:00Z", "2026-11-27T12:07:00Z", "2026-11-27T18:29:59Z"} {
		if p := times.At(instant(t, at)); !p.Active || !p.Until.Equal(instant(t, "2026-11-27T18:30:00Z")) {
			t.Errorf("at %s: %+v", at, p)
		}
	}
}

// Examples S3, S4, S5 and S8, in both directions of time.
func TestDaylightSaving(t *testing.T) {
	for name, c := range map[string]struct {
		text       Text
		near       string
		start, end string
		next       string
	}{
		"S3 a time that does not exist": {
			Text{Zone: "Europe/Berlin", Cron: "30 2 * * *", Duration: time.Hour}, "2027-03-28T01:30:00Z",
			"2027-03-28T01:00:00Z", "2027-03-28T02:00:00Z", "2027-03-29T00:30:00Z",
		},
		"S4 a time that exists twice": {
			Text{Zone: "Europe/Berlin", Cron: "30 2 * * *", Duration: 2 * time.Hour}, "2026-10-25T01:30:00Z",
			"2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z", "2026-10-26T01:30:00Z",
		},
		"S5 a short night": {
			Text{Zone: "Europe/Berlin", Cron: "0 22 * * *", EndCron: "0 6 * * *"}, "2027-03-28T00:00:00Z",
			"2027-03-27T21:00:00Z", "2027-03-28T04:00:00Z", "2027-03-28T20:00:00Z",
		},
		"S5 a long night": {
			Text{Zone: "Europe/Berlin", Cron: "0 22 * * *", EndCron: "0 6 * * *"}, "2026-10-25T00:00:00Z",
			"2026-10-24T20:00:00Z", "2026-10-25T05:00:00Z", "2026-10-25T21:00:00Z",
		},
		"S8 a gap of half an hour": {
			Text{Zone: "Australia/Lord_Howe", Cron: "15 2 * * *", Duration: time.Hour}, "2026-10-03T15:45:00Z",
			"2026-10-03T15:30:00Z", "2026-10-03T16:30:00Z", "2026-10-04T15:15:00Z",
		},
		"once": {
			Text{Zone: "UTC", At: time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC), Duration: 24 * time.Hour}, "2026-11-27T09:00:00Z",
			"2026-11-27T08:00:00Z", "2026-11-28T08:00:00Z", "",
		},
		"once until a wall time": {
			Text{Zone: "Europe/Berlin", At: time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC), EndCron: "0 18 * * *"}, "2026-11-27T09:00:00Z",
			"2026-11-27T08:00:00Z", "2026-11-27T17:00:00Z", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			times := compiled(t, c.text)
			start, end := instant(t, c.start), instant(t, c.end)
			p := times.At(instant(t, c.near))
			if !p.Active || !p.Until.Equal(end) {
				t.Errorf("%+v, want active until %s", p, end)
			}
			for at, want := range map[time.Time]bool{
				start.Add(-time.Nanosecond): false, start: true, end.Add(-time.Nanosecond): true, end: false,
			} {
				if p := times.At(at); p.Active != want {
					t.Errorf("%s: active %t", at, p.Active)
				}
			}
			if p := times.At(start.Add(-time.Nanosecond)); !p.Until.Equal(start) {
				t.Errorf("before: %+v, want until %s", p, start)
			}
			after, ok := times.After(&p)
			if !ok || after.Active || !after.Ended.Equal(end) {
				t.Errorf("after: %+v", after)
			}
			if c.next == "" {
				if !after.Until.IsZero() {
					t.Errorf("after: %+v, want for ever", after)
				}
			} else if next := instant(t, c.next); !after.Until.Equal(next) {
				t.Errorf("after: %+v, want until %s", after, next)
			}
		})
	}
}

func TestTimesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text   Text
		fields []Field
	}{
		"a date that does not exist": {Text{Zone: "UTC", Cron: "0 0 30 2 *", Duration: time.Hour}, []Field{CronField}},
		"an end with each start":     {Text{Zone: "UTC", Cron: "0 8 * * *", EndCron: "00  8 * * 0-6"}, []Field{EndCronField}},
		"an end each minute":         {Text{Zone: "Europe/Berlin", Cron: "0 8 * * *", EndCron: "* * * * *"}, []Field{EndCronField}},
		"an instant that is an end":  {Text{Zone: "UTC", At: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC), EndCron: "0 8 * * *"}, []Field{EndCronField}},
		"ends with all its starts":   {Text{Zone: "UTC", Cron: "0 8 29 2 *", EndCron: "0 8 * 2 *"}, []Field{EndCronField}},
		"an end that never comes":    {Text{Zone: "UTC", Cron: "0 0 * * *", EndCron: "0 0 31 2,4,6 *"}, []Field{EndCronField}},
		"everything":                 {Text{Zone: "Mars/Olympus", Cron: "61 * * * *", EndCron: "nonsense"}, []Field{ZoneField, CronField, EndCronField}},
		"the machine's zone":         {Text{Zone: "Local", Cron: "0 0 * * *", Duration: time.Hour}, []Field{ZoneField}},
		"no zone of a place":         {Text{Zone: "Factory", Cron: "0 0 * * *", Duration: time.Hour}, []Field{ZoneField}},
		"half a range":               {Text{Zone: "UTC", Cron: "*-5 * * * *", Duration: time.Hour}, []Field{CronField}},
		"leap seconds":               {Text{Zone: "right/UTC", Cron: "0 0 * * *", Duration: time.Hour}, []Field{ZoneField}},
		"a path":                     {Text{Zone: "../../etc/passwd", Cron: "0 0 * * *", Duration: time.Hour}, []Field{ZoneField}},
		"no zone":                    {Text{Cron: "0 0 * * *", Duration: time.Hour}, []Field{ZoneField}},
		"seconds":                    {Text{Zone: "UTC", Cron: "0 0 0 * * *", Duration: time.Hour}, []Field{CronField}},
		"a word":                     {Text{Zone: "UTC", Cron: "@daily", Duration: time.Hour}, []Field{CronField}},
		"a zone in the cron":         {Text{Zone: "UTC", Cron: "TZ=Asia/Tokyo 0 0 * *", Duration: time.Hour}, []Field{CronField}},
		"the last day":               {Text{Zone: "UTC", Cron: "0 0 L * *", Duration: time.Hour}, []Field{CronField}},
		"an empty list":              {Text{Zone: "UTC", Cron: ", * * * *", Duration: time.Hour}, []Field{CronField}},
		"a huge number":              {Text{Zone: "UTC", Cron: "99999999999999999999 * * * *", Duration: time.Hour}, []Field{CronField}},
		"no start":                   {Text{Zone: "UTC", Duration: time.Hour}, []Field{CronField}},
		"no end":                     {Text{Zone: "UTC", Cron: "0 0 * * *"}, []Field{EndCronField}},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := Compile(c.text)
			if took := time.Since(began); took > time.Second {
				t.Errorf("it takes %s", took)
			}
			problems := Check(c.text)
			if len(problems) == 0 {
				problems = []error{err}
			}
			var fields []Field
			for _, err := range problems {
				if one, ok := errors.AsType[*Error](err); ok {
					fields = append(fields, one.Field)
				}
			}
			if err == nil || err.Error() != problems[0].Error() {
				t.Errorf("%v, and then %v", err, problems[0])
			}
			if !slices.Equal(fields, c.fields) {
				t.Errorf("%v: fields %v, want %v", err, fields, c.fields)
			}
		})
	}
}

// A schedule of which many starts end at once, and some do not, is none that is never active.
func TestSomeStartsEndAtOnce(t *testing.T) {
	times := compiled(t, Text{Zone: "UTC", Cron: "* * * * *", EndCron: "* 0-11 * * *"})
	for at, want := range map[string]bool{"2026-11-27T11:59:30Z": false, "2026-11-27T12:00:00Z": true, "2026-11-27T23:59:59Z": true, "2026-11-28T00:00:00Z": false} {
		if p := times.At(instant(t, at)); p.Active != want {
			t.Errorf("at %s: %+v", at, p)
		}
	}
	compiled(t, Text{Zone: "UTC", Cron: "0 8 * 2 *", EndCron: "0 8 1-28 * *"}) // on leap days only
}

// An error names the field and what is wrong with it.
func TestErrorsNameTheField(t *testing.T) {
	for cron, want := range map[string]string{
		"0 8 * * Mo-Fr":                         `day of week "Mo-Fr": "Mo" is no number and no name such as MON`,
		"0 8 * Mai *":                           `month "Mai": "Mai" is no number and no name such as JAN`,
		"x 25 * * *":                            `minute "x": "x" is no number; hour "25": end of range (25) above maximum (23)`,
		"0 0 L * *":                             `day of month "L": L and W, for the last and the nearest day, are not known: list the days`,
		"0 25 * * *":                            `hour "25": end of range (25) above maximum (23)`,
		"0 1,8-25 * * *":                        `hour "1,8-25": end of range (25) above maximum (23): "8-25"`,
		"0 8 0 * *":                             `day of month "0": beginning of range (0) below minimum (1)`,
		"0 8 * * 1-9":                           `day of week "1-9": end of range (9) above maximum (7)`,
		"*/0 * * * *":                           `minute "*/0": step of range must be a positive number`,
		"0 8-9-10 * * *":                        `hour "8-9-10": too many hyphens`,
		"0 0 * * 1-99999999":                    `day of week "1-99999999": end of range (99999999) above maximum (7)`,
		strings.Repeat("0,", 600) + "0 * * * *": "spec too long: 1209 > 1024",
	} {
		_, err := Compile(Text{Zone: "UTC", Cron: cron, Duration: time.Hour})
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", cron, err, want)
		}
	}
}

// Leap days around 2100, which has none, and instants far away.
func TestSeldomTimes(t *testing.T) {
	times := compiled(t, Text{Zone: "Europe/Berlin", Cron: "0 12 29 2 *", Duration: time.Hour})
	for at, want := range map[string]string{
		"2026-01-01T00:00:00Z": "2028-02-29T11:00:00Z", "2097-01-01T00:00:00Z": "2104-02-29T11:00:00Z",
	} {
		if p := times.At(instant(t, at)); p.Active || !p.Until.Equal(instant(t, want)) {
			t.Errorf("%s: %+v, want until %s", at, p, want)
		}
	}
	for _, year := range []int{-200000, 1, 9999, 200000} {
		for _, text := range []Text{{Zone: "Australia/Sydney", Cron: "0 12 29 2 *", Duration: time.Hour}, {Zone: "Asia/Tehran", Cron: "* * * * *", EndCron: "0 0 * * *"}} {
			compiled(t, text).At(time.Date(year, 12, 31, 23, 59, 59, 999999999, time.UTC))
		}
	}
}

// What is compiled is kept, and bounded.
func TestCompiledTimesAreKept(t *testing.T) {
	text := Text{Zone: "UTC", Cron: "1 2 3 4 *", Duration: time.Hour}
	first := compiled(t, text)
	if compiled(t, text) != first {
		t.Error("compiled twice")
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 2 * mostKept {
				times, err := Compile(Text{Zone: "UTC", Cron: fmt.Sprintf("%d %d * * *", i%60, i/60%24), Duration: time.Duration(worker*10_000+i+1) * time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				times.At(time.Date(2026, 1, 1+i%30, 0, 0, 0, 0, time.UTC))
			}
		})
	}
	group.Wait()
	if len(kept.young) > mostKept || len(kept.old) > mostKept {
		t.Errorf("%d and %d are kept, at most %d each", len(kept.young), len(kept.old), mostKept)
	}
	if compiled(t, text) == first {
		t.Error("what was not used is kept")
	}
}

// A zone has one name for each entry of the database: other paths to its file would each be a zone of its own.
func TestPathsAreNoZones(t *testing.T) {
	for _, name := range []string{"./UTC", "Europe//Berlin", "/UTC", "UTC/", "Europe/./Berlin", "Europe/../UTC", "Europe\\Berlin", "UTC\x00", "tzdata.zi", "Europe", strings.Repeat("x", 1<<16), "Zürich"} {
		if zone, err := Zone(name); err == nil {
			t.Errorf("Zone(%q) = %v", name, zone)
		}
	}
	for _, name := range []string{"UTC", "Etc/GMT+5", "America/Port-au-Prince", "America/Argentina/ComodRivadavia", "EST5EDT", "GMT0"} {
		if _, err := Zone(name); err != nil {
			t.Errorf("Zone(%q): %v", name, err)
		}
	}
}
