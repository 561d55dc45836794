package redis_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, url string
		further   []string
		want      redis.Options
		tls       bool
	}{
		{name: "a host is a single server", url: "redis://localhost", want: redis.Options{Addresses: []string{"localhost:6379"}}},
		{name: "everything of a single server", url: "redis://user:secret@10.0.0.1:7000/3",
			want: redis.Options{Addresses: []string{"10.0.0.1:7000"}, Username: "user", Password: "secret", Database: 3}},
		{name: "a password alone", url: "redis://:secret@h", want: redis.Options{Addresses: []string{"h:6379"}, Password: "secret"}},
		{name: "what is special is percent-encoded", url: "redis://us%40er:p%2F%2C%40%3A%25@h/0",
			want: redis.Options{Addresses: []string{"h:6379"}, Username: "us@er", Password: "p/,@:%"}},
		{name: "rediss is TLS", url: "rediss://h:1", tls: true, want: redis.Options{Addresses: []string{"h:1"}}},
		{name: "several hosts are a cluster", url: "redis://a,b:1,c:2", want: redis.Options{Addresses: []string{"a:6379", "b:1", "c:2"}, Cluster: true}},
		{name: "one host of a cluster", url: "redis://a?cluster=true", want: redis.Options{Addresses: []string{"a:6379"}, Cluster: true}},
		{name: "hosts as go-redis has them", url: "redis://a?addr=b&addr=c:1", want: redis.Options{Addresses: []string{"a:6379", "b:6379", "c:1"}, Cluster: true}},
		{name: "sentinels", url: "redis://u:p@a,b:1/2?master=mymaster&sentinelUser=su&sentinelPassword=sp",
			want: redis.Options{Addresses: []string{"a:26379", "b:1"}, MasterName: "mymaster", Database: 2, Username: "u", Password: "p", SentinelUsername: "su", SentinelPassword: "sp"}},
		{name: "IPv6", url: "redis://[::1]:7000,[fe80::1]", want: redis.Options{Addresses: []string{"[::1]:7000", "[fe80::1]:6379"}, Cluster: true}},
		{name: "further URLs add hosts", url: "redis://u:p@a/?master=m", further: []string{"redis://b:1", "c", "d:2,e"},
			want: redis.Options{Addresses: []string{"a:26379", "b:1", "c:26379", "d:2", "e:26379"}, Username: "u", Password: "p", MasterName: "m"}},
		{name: "a host named twice is one host", url: "redis://a,a:6379", want: redis.Options{Addresses: []string{"a:6379"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := redis.ParseURL(tc.url, tc.further...)
			fatal.If(t, err)
			if (got.TLS != nil) != tc.tls {
				t.Errorf("TLS: %v", got.TLS)
			}
			got.TLS = nil
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if err := got.Validate(); err != nil {
				t.Errorf("not valid: %v", err)
			}
		})
	}
}

func TestParseURLSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ url, says string }{
		{"", "redis://"},
		{"localhost:6379", "redis://"},
		{"http://h", "redis://"},
		{"redis://", "host is missing"},
		{"redis://a,,b", "host is missing"},
		{"redis://h:port", "host:port"},
		{"redis://h:70000", "host:port"},
		{"redis://::1", "brackets"},
		{"redis://h/zero", "database"},
		{"redis://h/-1", "database"},
		{"redis://h/1/2", "database"},
		{"redis://a,b/1", "database 0 only"},
		{"redis://h?cluster=perhaps", "true nor false"},
		{"redis://h?cluster=true&master=m", "exclude"},
		{"redis://h?db=1", "not one of addr, cluster"},
		{"redis://h?master=a&master=b", "twice"},
		{"redis://h?sentinelPassword=x", "need master"},
		{"redis://u:top%secret@h", "percent"},
		{"redis://h#frag", "/database"},
	} {
		_, err := redis.ParseURL(tc.url)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%q: %v, want it to say %q", tc.url, err, tc.says)
		}
		if err != nil && strings.Contains(err.Error(), "top") {
			t.Errorf("%q: the error quotes the password: %v", tc.url, err)
		}
	}
	if _, err := redis.ParseURL("redis://a", "redis://u:p@b"); err == nil {
		t.Error("a further URL with credentials is taken")
	}
}

// A password with a sign that should have been encoded is taken for a host, a port, a
// database or a parameter; what is said of those tells nothing of it.
func TestNoPartOfAPasswordIsInAnError(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	for _, text := range []string{
		"redis://user:s3cret/x@h", "redis://user:x/s3cret@h", "redis://user:x/s3cret/s3cret@h:1", "redis://user:1/s3cret@h",
		"redis://user:s3cret?x@h", "redis://user:x?s3cret@h", "redis://user:x?s3cret=x@h", "redis://user:x?x=s3cret@h",
		"redis://user:s3cret#x@h", "redis://user:x#s3cret@h", "redis://user:1#s3cret@h", "redis://s3cret#x@h",
		"redis://user:s3cret?master=x@h", "redis://user:6379?master=s3cret@h", "redis://user:x?cluster=s3cret@h",
		"redis://user:x/s3cret?master=m@h", "redis://us@er:s3cret/x@h", "redis://user:s3cret%@h", "redis://user:s3cret%zz@h",
		"redis://h?addr=user:s3cret@n2", "redis://h?addr=s3cret@n2", "redis://h?s3cret", "redis://h?s3cret=1", "redis://h?sentinelpassword=s3cret",
		"redis://h?master=m&sentinelPassword=s3cret&sentinelPassword=s3cret", "redis://h?sentinelPassword=s3cret",
		"redis://h?master=m&sentinelPassword=s3cret;x", "redis://h?master=m&sentinelPassword=s3cret%", "redis://h/x?master=m&sentinelPassword=s3cret",
		"http://user:s3cret@h", "user:s3cret@h:6379", "redis:user:s3cret@h", "redis:/user:s3cret@h",
	} {
		_, err := redis.ParseURL(text)
		if err == nil {
			t.Errorf("%s is taken", text)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells of the password: %v", text, err)
		}
		if _, err := redis.ParseURL("redis://h", text); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s as a further one: %v", text, err)
		}
	}
	got, err := redis.ParseURL("redis://h?master=m&sentinelPassword=a@b")
	if err != nil || got.SentinelPassword != "a@b" {
		t.Errorf("a password with an @ in a parameter: %q, %v", got.SentinelPassword, err)
	}
}

func TestValidateListsAllThatIsWrong(t *testing.T) {
	t.Parallel()
	o := redis.Options{Cluster: true, MasterName: "m", Database: -1, KeyPrefix: "{x}", MaxAttempts: -1}
	err := o.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, says := range []string{"address", "sentinels", "database", "braces", "negative"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("nothing is said of %q:\n%v", says, err)
		}
	}
	if s, err := redis.New(o); err == nil {
		_ = s.Close()
		t.Error("New takes them")
	}
	if err := (redis.Options{Addresses: []string{"h:1"}, WaitReplicas: 1, WaitTimeout: 2e9, Timeout: 1e9}).Validate(); err == nil {
		t.Error("waiting longer than the timeout is taken")
	}
}
