package overrides

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

var readNow = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// recordOf is a record of overrides as they come.
func recordOf(tb testing.TB, list *storedv1.Overrides) store.Record {
	tb.Helper()
	value, err := proto.Marshal(list)
	fatal.If(tb, err)
	return store.Record{Value: value, Version: "7"}
}

// byMessages are those of a record for a target, read as messages, by level and name.
func byMessages(tb testing.TB, record store.Record, key store.Key) (found []stages.Override) {
	tb.Helper()
	all, _, err := decode("c", record, readNow)
	fatal.If(tb, err)
	count := func(n *int32) int32 {
		if n == nil {
			return -1
		}
		return *n
	}
	for _, o := range all {
		place, _, ok := target.ParseOverride(o.GetName())
		if !ok || place.Cluster != key.Cluster || place.Namespace != "" && place.Namespace != key.Namespace || place.Target != "" && place.Target != key.Target {
			continue
		}
		found = append(found, stages.Override{
			Name: o.GetName(), Level: levelOf(place), Hold: o.GetHold(), Pin: count(o.Pin), Floor: count(o.Floor), Ceiling: count(o.Ceiling), //nolint:protogetter // absent is not 0
			NoScaleDown: o.GetNoScaleDown(), NoScaleUp: o.GetNoScaleUp(), Reason: o.GetReason(), Author: o.GetAuthor(),
			Start: o.GetStartTime().AsTime(), Expires: o.GetExpireTime().AsTime(), Created: o.GetCreateTime().AsTime(),
		})
	}
	slices.SortFunc(found, func(a, b stages.Override) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), strings.Compare(a.Name, b.Name))
	})
	return found
}

// A record is read as its messages are, whatever it has, and in whatever order.
func TestRecordsAreReadAsTheirMessages(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	places := []string{
		"clusters/c", "clusters/c/namespaces/shop", "clusters/c/namespaces/shop/targets/web", "clusters/c/namespaces/shop/targets/web-2",
		"clusters/c/namespaces/x/targets/web", "projects/p",
	}
	at := func() *timestamppb.Timestamp {
		switch r.IntN(6) {
		case 0:
			return nil
		case 1:
			return &timestamppb.Timestamp{Seconds: r.Int64N(1 << 33), Nanos: int32(r.IntN(1e9))}
		case 2:
			return &timestamppb.Timestamp{Seconds: -5, Nanos: -1}
		}
		return timestamppb.New(readNow.Add(time.Duration(r.IntN(7200)-600) * time.Second))
	}
	maybe := func() *int32 {
		if r.IntN(2) == 0 {
			return nil
		}
		return proto.Int32([]int32{0, 1, 300, 1<<31 - 1, -1}[r.IntN(5)])
	}
	seen := 0
	for range 2000 {
		list := &storedv1.Overrides{None: []string{"", "-"}[r.IntN(2)]}
		for i := range r.IntN(12) {
			list.Overrides = append(list.Overrides, &setpointv1.Override{
				Name: fmt.Sprintf("%s/overrides/o-%d", places[r.IntN(len(places))], i), Hold: r.IntN(2) == 0, Pin: maybe(), Floor: maybe(), Ceiling: maybe(),
				NoScaleDown: r.IntN(2) == 0, NoScaleUp: r.IntN(2) == 0, StartTime: at(), ExpireTime: at(), CreateTime: at(),
				Reason: []string{"", "a sale", "größer"}[r.IntN(3)], Author: []string{"", "ann"}[r.IntN(2)],
			})
		}
		for range r.IntN(3) {
			list.Deleted = append(list.Deleted, &storedv1.DeletedOverride{Name: "clusters/c/overrides/d", CreateTime: at(), DeleteTime: at(), By: "ann"})
		}
		record := recordOf(t, list)
		k, err := read("c", record, readNow)
		fatal.If(t, err)
		all := 0
		for _, key := range []store.Key{{Cluster: "c", Namespace: "shop", Target: "web"}, {Cluster: "c", Namespace: "shop", Target: "web-2"}, {Cluster: "c", Namespace: "x", Target: "web"}, {Cluster: "c", Namespace: "sho", Target: "web"}} {
			got, want := k.of(key), byMessages(t, record, key)
			if all += len(want); !reflect.DeepEqual(got, want) {
				t.Fatalf("%v of %v:\n%+v, want\n%+v", key, list, got, want)
			}
		}
		later := readNow.Add(time.Hour)
		some, err := read("c", record, later)
		fatal.If(t, err)
		if got, want := k.without(later).names(later), some.names(later); !slices.Equal(got, want) {
			t.Fatalf("%v an hour later, want %v", got, want)
		}
		if _, deleted, err := decode("c", record, readNow); err != nil || len(k.deleted) != len(deleted) {
			t.Fatalf("deleted: %v, want %v (%v)", k.deleted, deleted, err)
		}
		k.each(func(one *stages.Override) {
			if !k.has(one.Name) || k.has(one.Name+"-") || one.Level == 0 {
				t.Fatalf("%+v", one)
			}
		})
		seen += all
	}
	if seen < 5000 {
		t.Errorf("%d overrides compared", seen)
	}
}

// What messages can be read of is read, and nothing else panics.
func FuzzRecords(f *testing.F) {
	f.Add(recordOf(f, aFullList()).Value[:1000])
	f.Add([]byte("\x0a\x04\x0a\x02\xff\xfe"))
	f.Fuzz(func(t *testing.T, value []byte) {
		record := store.Record{Value: value}
		k, err := read("c", record, readNow)
		if _, _, wrong := decode("c", record, readNow); err != nil && wrong == nil {
			t.Errorf("%q: %v, and messages can be read of it", value, err)
		}
		if err == nil {
			k.of(store.Key{Cluster: "c", Namespace: "n", Target: "t"})
			k.each(func(*stages.Override) {})
		}
	})
}

// A call about a cluster that is not in the cache may read a full list, so that must cost little: messages of it are 7,000 objects.
func TestAFullListIsReadWithoutMessages(t *testing.T) {
	record := recordOf(t, aFullList())
	if objects := testing.AllocsPerRun(5, func() {
		if _, err := read("c", record, readNow); err != nil {
			t.Error(err)
		}
	}); objects > 1.2*MostOfCluster {
		t.Errorf("%.0f objects for %d overrides", objects, MostOfCluster-ReservedOfCluster)
	}
}

// aFullList is of as many overrides as a cluster may have.
func aFullList() *storedv1.Overrides {
	list := new(storedv1.Overrides)
	for i := range MostOfCluster - ReservedOfCluster {
		list.Overrides = append(list.Overrides, &setpointv1.Override{
			Name: fmt.Sprintf("clusters/c/namespaces/n-%d/targets/t-%03d/overrides/o", i%2, i), Hold: true, Reason: strings.Repeat("r", 100), Author: "ann",
			CreateTime: timestamppb.New(readNow), StartTime: timestamppb.New(readNow), ExpireTime: timestamppb.New(readNow.Add(time.Hour)),
		})
	}
	return list
}

func BenchmarkFullList(b *testing.B) {
	record := recordOf(b, aFullList())
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := read("c", record, readNow); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("of a target", func(b *testing.B) {
		k, err := read("c", record, readNow)
		fatal.If(b, err)
		b.ReportAllocs()
		for b.Loop() {
			if len(k.of(store.Key{Cluster: "c", Namespace: "n-1", Target: "t-501"})) != 1 {
				b.Fatal("it is not found")
			}
		}
	})
	b.Run("by messages", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := decode("c", record, readNow); err != nil {
				b.Fatal(err)
			}
		}
	})
}
