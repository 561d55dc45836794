package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
)

var feedTests = []test{
	{"EmptyAtFirst", testFeedEmpty},
	{"InTheOrderOfAKey", testFeedOrder},
	{"NumbersAreConsecutive", testFeedNumbers},
	{"TheFirstIsMarked", testFeedFirst},
	{"FromAPosition", testFeedPosition},
	{"FromAnInstant", testFeedInstant},
	{"DropsTheOldest", testFeedBound},
	{"PagesAreBoundedInBytes", testFeedBytes},
	{"TooLargeAnEntry", testFeedTooLarge},
	{"OnlyTheParts", testFeedReads},
	{"ABurstReplacesItself", testFeedShares},
	{"StaysAfterDelete", testFeedDelete},
	{"AnyBytes", testFeedData},
}

// feedReader reads all parts of a feed, entry by entry.
type feedReader struct {
	f     fixture
	feed  store.Feed
	after []store.FeedPosition
}

// feed returns the engine's feed, and a reader of it from its beginning.
func (f fixture) feed() *feedReader {
	f.t.Helper()
	feed, ok := f.Engine.(store.Feed)
	if !ok {
		f.t.Skip("the engine keeps no feed")
	}
	if feed.FeedParts() < 1 {
		f.t.Fatalf("FeedParts() = %d", feed.FeedParts())
	}
	return &feedReader{f, feed, make([]store.FeedPosition, feed.FeedParts())}
}

func (r *feedReader) append(key store.Key, values ...string) {
	r.f.t.Helper()
	var entries []store.FeedEntry
	for _, v := range values {
		entries = append(entries, store.FeedEntry{Key: key, Value: []byte(v)})
	}
	if err := r.feed.AppendFeed(r.f.t.Context(), entries); err != nil {
		r.f.t.Fatalf("AppendFeed of %d: %v", len(entries), err)
	}
	for _, entry := range entries {
		clear(entry.Value) // the engine keeps no alias
	}
}

// reads asks for what follows in each part.
func (r *feedReader) reads() (reads []store.FeedRead) {
	for part, after := range r.after {
		reads = append(reads, store.FeedRead{Part: part, After: after})
	}
	return reads
}

// read returns the next entries of all parts, up to a limit each.
func (r *feedReader) read(limit int) []store.FeedItem {
	r.f.t.Helper()
	pages, err := r.feed.ReadFeed(r.f.t.Context(), r.reads(), limit)
	if err != nil || len(pages) != len(r.after) {
		r.f.t.Fatalf("ReadFeed: %d pages, %v, want %d", len(pages), err, len(r.after))
	}
	var all []store.FeedItem
	for part, page := range pages {
		bytes := 0
		for _, item := range page.Items {
			bytes += item.Bytes()
			if !r.after[part].Before(item.Position) || page.Newest.Before(item.Position) {
				r.f.t.Fatalf("%v comes after %v, the newest is %v", item.Position, r.after[part], page.Newest)
			}
			r.after[part] = item.Position
		}
		if len(page.Items) > limit {
			r.f.t.Fatalf("%d entries, more than %d", len(page.Items), limit)
		}
		if bytes > store.MaxFeedPageBytes {
			r.f.t.Fatalf("%d entries of %d bytes, more than %d", len(page.Items), bytes, store.MaxFeedPageBytes)
		}
		for i := range page.Items {
			item := page.Items[i]
			item.Value = slices.Clone(item.Value)
			clear(page.Items[i].Value) // nor of what it returned
			all = append(all, item)
		}
	}
	return all
}

// all returns everything that comes next.
func (r *feedReader) all() (all []store.FeedItem) {
	r.f.t.Helper()
	for {
		some := r.read(100)
		if len(some) == 0 {
			return all
		}
		all = append(all, some...)
	}
}

// want checks the next values of a key.
func (r *feedReader) want(items []store.FeedItem, key store.Key, values ...string) {
	r.f.t.Helper()
	var got []string
	for _, item := range items {
		if item.Key == key {
			got = append(got, string(item.Value))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(values) {
		r.f.t.Errorf("of %v: %q, want %q", key, got, values)
	}
}

func testFeedEmpty(t *testing.T, s suite) {
	r := s.open(t).feed()
	if got := r.all(); len(got) > 0 {
		t.Errorf("a new feed has %v", got)
	}
	r.append(key("a"))
	for _, part := range []int{-1, r.feed.FeedParts()} {
		if _, err := r.feed.ReadFeed(t.Context(), []store.FeedRead{{Part: part}}, 1); err == nil {
			t.Errorf("part %d is read", part)
		}
	}
}

func testFeedOrder(t *testing.T, s suite) {
	r := s.open(t).feed()
	const n = 40
	for i := range n {
		r.append(key(fmt.Sprint(i%8)), fmt.Sprint(i), fmt.Sprint(i, "!"))
	}
	all := r.all()
	if len(all) != 2*n {
		t.Errorf("%d entries, want %d", len(all), 2*n)
	}
	for k := range 8 {
		var want []string
		for i := k; i < n; i += 8 {
			want = append(want, fmt.Sprint(i), fmt.Sprint(i, "!"))
		}
		r.want(all, key(fmt.Sprint(k)), want...)
	}
}

func testFeedNumbers(t *testing.T, s suite) {
	r := s.open(t).feed()
	for i := range 5 {
		r.append(key("target"), fmt.Sprint(i), "and", "more")
	}
	all := r.all()
	for i := 1; i < len(all); i++ {
		if all[i].Position.Number != all[i-1].Position.Number+1 || all[i].Position.Millis < all[i-1].Position.Millis {
			t.Errorf("%v comes after %v", all[i].Position, all[i-1].Position)
		}
	}
}

func testFeedFirst(t *testing.T, s suite) {
	r := s.open(t).feed()
	r.append(key("a"), "1", "2")
	r.append(key("a"), "3")
	for i, item := range r.all() {
		if item.First != (i == 0) {
			t.Errorf("%q: First is %t", item.Value, item.First)
		}
	}
	if s.FeedLength == 0 {
		return
	}
	// Until it is gone; engines may drop entries by the hundred.
	for range 3 * s.FeedLength / 100 {
		r.append(key("a"), make([]string, 100)...)
	}
	clear(r.after)
	for _, item := range r.all() {
		if item.First {
			t.Errorf("%v claims to be the first entry, but %d were dropped", item.Position, item.Position.Number)
		}
	}
}

func testFeedPosition(t *testing.T, s suite) {
	r := s.open(t).feed()
	r.append(key("a"), "1", "2", "3")
	r.want(r.read(2), key("a"), "1", "2")
	r.append(key("a"), "4")
	r.want(r.read(1), key("a"), "3")
	r.want(r.read(0), key("a"))
	clear(r.after)
	pages, err := r.feed.ReadFeed(t.Context(), r.reads(), 0)
	fatal.If(t, err)
	for part := range pages {
		r.after[part] = pages[part].Newest
	}
	r.append(key("a"), "5")
	r.want(r.all(), key("a"), "5")
}

func testFeedInstant(t *testing.T, s suite) {
	r := s.open(t).feed()
	r.append(key("a"), "1", "2")
	at := r.read(1)[0].Position.Millis
	for part := range r.after {
		r.after[part] = store.FeedPosition{Millis: at}
	}
	r.want(r.all(), key("a"), "1", "2")
	for part := range r.after {
		r.after[part] = store.FeedPosition{Millis: at + 3_600_000}
	}
	r.want(r.all(), key("a"))
}

func testFeedBound(t *testing.T, s suite) {
	if s.FeedLength == 0 {
		t.Skip("Options.FeedLength is not set")
	}
	r := s.open(t).feed()
	n := 3 * s.FeedLength
	for i := 0; i < n; i += 100 {
		var values []string
		for j := range 100 {
			values = append(values, fmt.Sprint(i+j))
		}
		r.append(key("a"), values...)
	}
	all := r.all()
	// Engines may drop entries by the hundred.
	if len(all) < s.FeedLength/max(1, r.feed.FeedParts()) || len(all) > s.FeedLength+200 {
		t.Fatalf("%d entries are left of %d, want about %d", len(all), n, s.FeedLength)
	}
	if last := string(all[len(all)-1].Value); last != fmt.Sprint(n-1) {
		t.Errorf("the last is %s, want %d", last, n-1)
	}
	if lost := all[len(all)-1].Position.Number - all[0].Position.Number + 1; lost != uint64(len(all)) {
		t.Errorf("%d entries have numbers of %d", len(all), lost)
	}
}

func testFeedBytes(t *testing.T, s suite) {
	for _, size := range []int{600, 1000, store.MaxFeedEntryBytes} {
		r := s.open(t).feed()
		k := key("a")
		value := string(make([]byte, size-(&store.FeedEntry{Key: k}).Bytes()))
		n := 3*store.MaxFeedPageBytes/size + 1
		for i := 0; i < n; i += 100 {
			r.append(k, slices.Repeat([]string{value}, min(100, n-i))...)
		}
		// No more than one of any size is missing to a full page.
		if got, want := len(r.read(n)), min(n, (store.MaxFeedPageBytes-store.MaxFeedEntryBytes)/size); got < want {
			t.Errorf("a page has %d entries of %d bytes, want %d at least", got, size, want)
		}
		clear(r.after)
		if got := len(r.all()); got != n {
			t.Errorf("%d entries of %d bytes, want %d", got, size, n)
		}
	}
}

func testFeedTooLarge(t *testing.T, s suite) {
	r := s.open(t).feed()
	entries := []store.FeedEntry{{Key: key("a"), Value: []byte("small")}, {Key: key("a")}}
	entries[1].Value = make([]byte, store.MaxFeedEntryBytes-entries[1].Bytes()+1)
	if err := r.feed.AppendFeed(t.Context(), entries); err == nil {
		t.Errorf("an entry of %d bytes is taken", entries[1].Bytes())
	}
	r.want(r.all(), key("a"))
}

func testFeedReads(t *testing.T, s suite) {
	r := s.open(t).feed()
	for i := range 20 {
		r.append(key(fmt.Sprint(i)), "value")
	}
	all, err := r.feed.ReadFeed(t.Context(), r.reads(), 100)
	fatal.If(t, err)
	if pages, err := r.feed.ReadFeed(t.Context(), nil, 100); err != nil || len(pages) > 0 {
		t.Errorf("of no part: %v, %v", pages, err)
	}
	for part := range all {
		pages, err := r.feed.ReadFeed(t.Context(), []store.FeedRead{{Part: part}}, 100)
		if err != nil || len(pages) != 1 || fmt.Sprint(pages[0]) != fmt.Sprint(all[part]) {
			t.Errorf("part %d: %v, %v, want %v", part, pages, err, all[part])
		}
	}
}

// A namespace, or a cluster, that writes more than all the feed holds replaces what is its own, and
// one that is alone has all of it.
func testFeedShares(t *testing.T, s suite) {
	if s.FeedLength == 0 {
		t.Skip("Options.FeedLength is not set")
	}
	for _, tc := range []struct {
		name string
		// clusters are those of others.
		clusters []string
		// of is the namespace of the i-th entry of a burst of three feeds.
		of func(i int) (cluster, namespace string)
	}{
		{"one namespace", []string{"shared", "a", "z"}, func(int) (string, string) { return "shared", "z" }},
		{"one namespace in a single cluster", []string{"shared"}, func(int) (string, string) { return "shared", "z" }},
		{"namespaces of a cluster", []string{"a", "shared", "z"}, func(i int) (string, string) { return "burst", fmt.Sprint(i % 100) }},
		{"a namespace for each entry", []string{"a", "shared", "z"}, func(i int) (string, string) { return "burst", fmt.Sprint(i) }},
	} {
		r := s.open(t).feed()
		full := s.FeedLength / r.feed.FeedParts() * r.feed.FeedParts()
		// Others have half of it, in many namespaces.
		others := 0
		for i := range full / 2 {
			k := store.Key{Cluster: tc.clusters[i%len(tc.clusters)], Namespace: fmt.Sprint("n", i%31), Target: fmt.Sprint("t", i)}
			r.append(k, "theirs")
			others++
		}
		var burst []store.FeedEntry
		for i := range 3 * full {
			k := store.Key{Target: fmt.Sprint("t", i)}
			k.Cluster, k.Namespace = tc.of(i)
			burst = append(burst, store.FeedEntry{Key: k, Value: []byte("burst")})
		}
		for part := range slices.Chunk(burst, 200) {
			fatal.If(t, r.feed.AppendFeed(t.Context(), part))
		}
		left, mine := 0, 0
		for _, item := range r.all() {
			if string(item.Value) == "theirs" {
				left++
			} else {
				mine++
			}
		}
		if left < others-others/10 || mine < full/4 {
			t.Errorf("%s: of %d entries of others %d are left beside %d of the burst", tc.name, others, left, mine)
		}
		// Others go on, and the bound stays.
		clear(r.after)
		for i := range full {
			r.append(store.Key{Cluster: "later", Namespace: fmt.Sprint(i % 50), Target: fmt.Sprint(i)}, "later")
		}
		all := r.all()
		if len(all) > full+full/16 {
			t.Errorf("%s: %d entries, more than %d and a sixteenth", tc.name, len(all), full)
		}
		// With less than its share a cluster replaces what is others'.
		later := 0
		for _, item := range all {
			if string(item.Value) == "later" {
				later++
			}
		}
		if later < full/store.FeedClusterShare-full/16 {
			t.Errorf("%s: %d of %d entries are those of a cluster that came later", tc.name, later, full)
		}
	}
}

func testFeedDelete(t *testing.T, s suite) {
	f := s.open(t)
	r := f.feed()
	f.create(key("a"), "record")
	r.append(key("a"), "1")
	f.mustDelete(key("a"))
	r.want(r.all(), key("a"), "1")
}

func testFeedData(t *testing.T, s suite) {
	r := s.open(t).feed()
	k := store.Key{Cluster: "c\xff {}*", Namespace: "\n", Target: "é"}
	value := "\x00\r\n$-1\xff"
	r.append(k, value, "")
	r.want(r.all(), k, value, "")
}
