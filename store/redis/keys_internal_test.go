package redis

import (
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

// The values are those of Redis Cluster's specification and of CLUSTER KEYSLOT.
func TestSlotsAreThoseOfRedisCluster(t *testing.T) {
	t.Parallel()
	if got := crc16("123456789"); got != 0x31c3 {
		t.Errorf("crc16 = %#x, want 0x31c3", got)
	}
	for tag, want := range map[string]int{"foo": 12182, "bar": 5061, "": 0} {
		if got := slot(tag); got != want {
			t.Errorf("slot(%q) = %d, want %d", tag, got, want)
		}
	}
}

// What is stored must be found by later versions: this is the layout, for good.
func TestTheLayoutStays(t *testing.T) {
	t.Parallel()
	l := newLayout("setpoint:")
	p := l.place(store.Key{Cluster: "prod", Namespace: "shop", Target: "web"})
	for got, want := range map[string]string{
		p.record(): "setpoint:{7i}h:prod/shop/web",
		p.log():    "setpoint:{7i}l:prod/shop/web",
		p.index():  "setpoint:{7i}i",
		p.member(): "prod\x00shop\x00web",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Nothing shares a key with anything else: neither the parts nor the feed.
func TestNoTwoThingsHaveOneKey(t *testing.T) {
	t.Parallel()
	all := newLayout("setpoint:")
	of := map[string]string{}
	for what, key := range map[string]string{"the ping": all.bases[0] + "p", "the feed": all.feed(0), "the feed's tenants": all.feedIndex(0)} {
		of[key] = what
	}
	for part := range partLetters {
		l := all.of(part)
		p := place{l.bases[0] + l.part, "c/n/t"}
		for _, key := range []string{p.record(), p.log(), p.kept(), p.deletion(), p.index()} {
			if other := of[key]; other != "" {
				t.Errorf("%s is of %q and of %s", key, part, other)
			}
			of[key] = string(part) + " of targets"
		}
	}
}

func TestBucketsAreSpreadEvenlyOverTheSlots(t *testing.T) {
	t.Parallel()
	for b, tag := range bucketTags {
		if got := slot(tag) * bucketCount / slotCount; got != b {
			t.Errorf("bucket %d has the tag %q in range %d", b, tag, got)
		}
	}
}

func TestKeysAreSpreadOverTheBuckets(t *testing.T) {
	t.Parallel()
	l := newLayout("")
	const keys = 100_000
	count := make(map[string]int)
	for i := range keys {
		count[l.place(store.Key{Cluster: "c", Namespace: "n", Target: string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune(0x4e00+i/676))}).base]++
	}
	if len(count) != bucketCount {
		t.Fatalf("%d buckets have keys", len(count))
	}
	for base, n := range count {
		if n < keys/bucketCount/2 || n > keys/bucketCount*2 {
			t.Errorf("bucket %s has %d keys of %d", base, n, keys)
		}
	}
}

// Hash tags end at the first closing brace, wherever it comes from: all keys of a
// target must still be in one slot.
func TestBracesInNamesDoNotTearATargetApart(t *testing.T) {
	t.Parallel()
	l := newLayout("p:")
	for _, key := range []store.Key{{Cluster: "}", Namespace: "{", Target: "}{"}, {Cluster: "{}", Namespace: "n", Target: "{x}"}} {
		p := l.place(key)
		if p.base[:3] != "p:{" || p.record()[:len(p.base)] != p.base || p.log()[:len(p.base)] != p.base {
			t.Errorf("%v: %q and %q do not begin with one hash tag", key, p.record(), p.log())
		}
	}
}

func TestMembersSortAsKeysDo(t *testing.T) {
	t.Parallel()
	names := []string{"a", "a-", "a\x01", "b", "\xff", "é", "a.b"}
	var keys []store.Key
	for _, c := range names {
		for _, n := range names {
			for _, x := range names {
				keys = append(keys, store.Key{Cluster: c, Namespace: n, Target: x})
			}
		}
	}
	slices.SortFunc(keys, store.Key.Compare)
	l := newLayout("")
	for i, key := range keys {
		member := l.place(key).member()
		if back, ok := memberKey(member); !ok || back != key {
			t.Fatalf("%v comes back as %v", key, back)
		}
		if i > 0 && member <= l.place(keys[i-1]).member() {
			t.Fatalf("the member of %v does not come after that of %v", key, keys[i-1])
		}
	}
	for _, member := range []string{"", "a", "a\x00b", "a\x00b\x00c\x00d"} {
		if key, ok := memberKey(member); ok {
			t.Errorf("%q passes for %v", member, key)
		}
	}
}

func TestRecordsAreWhatTheyWere(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "x", "\x00\xff", string(make([]byte, 1<<16))} {
		random := newVersion()
		version := store.Version(random[:])
		r, err := decodeRecord(string(version) + value)
		if err != nil || r.Version != version || string(r.Value) != value {
			t.Errorf("%d bytes: %v, version %q, want %q", len(value), err, r.Version, version)
		}
	}
}

func TestForeignRecordsAreUnreadable(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"empty": "", "short": "\x01abc", "of a newer version": "\x02abcdefgh value", "of somebody else": "hello, world", "short and foreign": "hi",
	} {
		if r, err := decodeRecord(raw); err == nil || r.Exists() {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}
