package schedule

import (
	_ "embed" // names of zones
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // images of one program have no time zones

	"github.com/setpoint-dev/setpoint/internal/spelling"
)

// Instants and wall times of a zone. All is computed from offsets at instants: the bounds of a zone's
// periods, time.Time.ZoneBounds, are wrong on the last day of leap years after the table of the zone ends.

// Zones with wall times at most so far ahead of UTC, and behind it.
const (
	mostAhead  = 15 * time.Hour
	mostBehind = 13 * time.Hour
)

// firstInstant returns when a zone's clocks show a wall time first. If they never do, because they are
// set forward over it, it returns when they are.
func firstInstant(zone *time.Location, wall time.Time) time.Time {
	from, to := wall.Add(-mostAhead), wall.Add(mostBehind)
	before, after := offset(zone, from), offset(zone, to)
	early := wall.Add(-before)
	if before == after {
		return early
	}
	change := changeBetween(zone, from, to)
	if early.Before(change) {
		return early
	}
	if late := wall.Add(-after); !late.Before(change) {
		return late
	}
	return change
}

// latestWall returns the latest wall time, in whole seconds, that a zone's clocks have shown up to an
// instant: later than they show in the hour after they were set back.
func latestWall(zone *time.Location, t time.Time) time.Time {
	now := offset(zone, t)
	wall := t.UTC().Add(now)
	from := t.Add(-mostAhead - mostBehind)
	before := offset(zone, from)
	if before <= now {
		return wall
	}
	if last := changeBetween(zone, from, t).UTC().Add(before - time.Second); last.After(wall) {
		return last
	}
	return wall
}

func offset(zone *time.Location, t time.Time) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// changeBetween returns the first instant, in whole seconds, with another offset than the first of two
// instants; the offsets of the two differ.
func changeBetween(zone *time.Location, from, to time.Time) time.Time {
	first := offset(zone, from)
	low, high := from.Unix(), to.Unix()
	for low+1 < high {
		middle := low + (high-low)/2
		if offset(zone, time.Unix(middle, 0)) == first {
			low = middle
		} else {
			high = middle
		}
	}
	return time.Unix(high, 0).UTC()
}

// mostZones limits the zones that are kept in memory, and the names that are none; the database has some 600, none
// longer than longestZone.
const mostZones, longestZone = 1024, 64

var zones struct {
	sync.Mutex
	of      map[string]*time.Location
	unknown map[string]error
}

var errNoZone = errors.New("the IANA time zone database has no zone of that name")

// Loaded reports whether Zone answers without a look at the database, which takes some tens of microseconds where it
// has no such name.
func Loaded(name string) bool {
	zones.Lock()
	defer zones.Unlock()
	return zones.of[name] != nil || zones.unknown[name] != nil
}

// Zone returns a zone of the IANA database by its name.
func Zone(name string) (*time.Location, error) {
	zones.Lock()
	zone, unknown := zones.of[name], zones.unknown[name]
	zones.Unlock()
	switch {
	case zone != nil:
		return zone, nil
	case unknown != nil:
		return nil, unknown
	case name == "":
		return nil, fmt.Errorf("a time zone is required, such as %q or %q", "Europe/Berlin", "UTC")
	case name == "Local", name == "localtime", name == "posixrules", name == "Factory", strings.HasPrefix(name, "right/"), strings.HasPrefix(name, "posix/"), len(name) > longestZone:
		return nil, errNoZone
	case !isPlain(name):
		return nil, noZone(name)
	}
	// Without the lock: an unknown name is looked for in several places, and nobody else waits for that.
	zone, err := time.LoadLocation(name)
	if err != nil {
		unknown = noZone(name)
	}
	zones.Lock()
	defer zones.Unlock()
	if err != nil {
		if len(zones.unknown) >= mostZones || zones.unknown == nil {
			zones.unknown = map[string]error{}
		}
		zones.unknown[strings.Clone(name)] = unknown
		return nil, unknown
	}
	if len(zones.of) >= mostZones || zones.of == nil {
		zones.of = map[string]*time.Location{}
	}
	zones.of[strings.Clone(name)] = zone
	return zone, nil
}

// isPlain reports whether a name is no other path to a zone's file, such as ./UTC or Europe//Berlin: each would be
// a zone of its own.
func isPlain(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '+'
		}) {
			return false
		}
	}
	return true
}

// names are the zones of the database, a line each: Go lists none.
//
//go:embed zones.txt
var names string

// offsets are differences from UTC in place of names, as +02:00, UTC+2 and GMT-0300.
var offsets = regexp.MustCompile(`^(?i:UTC|GMT)?([+-])0?([0-9]{1,2})(?::?([0-5][0-9]))?$`)

// noZone is the error of a name that is no zone's, with a guess at what it means.
func noZone(name string) error {
	if found := offsets.FindStringSubmatch(name); found != nil {
		err := fmt.Errorf("%w: name a place, such as Europe/Berlin, whose clocks are set forward and back", errNoZone)
		fixed := "Etc/GMT" + map[string]string{"+": "-", "-": "+"}[found[1]] + found[2] // POSIX counts westwards
		if strings.Trim(found[3], "0") == "" && strings.Contains(names, "\n"+fixed+"\n") {
			err = fmt.Errorf("%w, or for %s all year %s, whose sign is the other way round", err, name, fixed)
		}
		return err
	}
	region, city := cut(strings.ReplaceAll(name, " ", "_"))
	var near []string
	for one := range strings.FieldsSeq(names) {
		ofRegion, ofCity := cut(one)
		if strings.EqualFold(city, ofCity) {
			return fmt.Errorf("%w; did you mean %s?", errNoZone, one)
		}
		if strings.EqualFold(region, ofRegion) && strings.EqualFold(city[:min(1, len(city))], ofCity[:1]) { // few: anyone may send many names
			near = append(near, one)
		}
	}
	if one, ok := spelling.Closest(name, near); ok {
		return fmt.Errorf("%w; did you mean %s?", errNoZone, one)
	}
	return errNoZone
}

// cut cuts a name into its region and the rest.
func cut(name string) (region, city string) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)], name[i+1:]
}
