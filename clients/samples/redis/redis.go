// Package redis reads lengths of lists, sorted sets and streams.
package redis

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Server is one server, a Cluster, or a master that sentinels watch.
type Server struct {
	// Addresses are host:port: of the server, of nodes of the Cluster, or of the
	// sentinels. Required.
	Addresses []string `json:"addresses"`
	// Cluster reports whether the addresses are of a Redis Cluster. Default: one server.
	Cluster bool `json:"cluster,omitempty"`
	// Master is the name of the master that the sentinels at the addresses watch. Default:
	// the addresses are not of sentinels.
	Master string `json:"master,omitempty"`
	// Database is the number of the database; a Cluster has 0 only. Default: 0.
	Database int `json:"database,omitempty"`
	// Username is that of the server's ACL. Default: the server's default user.
	Username string `json:"username,omitempty"`
	// PasswordFile holds the password; read at each connection. Default: none is sent.
	PasswordFile string `json:"passwordFile,omitempty"`
	// InsecureCredentials lets the password travel without TLS. Default: a source with a
	// password needs tls.
	InsecureCredentials bool `json:"insecureCredentials,omitempty"`
	// TLS asks for TLS, also to sentinels; {} trusts the system's authorities. Default:
	// in the clear.
	TLS *source.TLS `json:"tls,omitempty"`
}

// Problems returns the problems of the settings. It opens no file.
func (r *Server) Problems() typed.Problems {
	var p typed.Problems
	if len(r.Addresses) == 0 {
		p.Add("addresses", "is required, such as [redis:6379]")
	}
	for i, address := range r.Addresses {
		host, port, err := net.SplitHostPort(address)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(host, "@/") {
			// The error does not quote it: people write passwords there.
			p.Add("addresses["+strconv.Itoa(i)+"]", "must be host:port such as redis:6379, without a scheme or a password")
		}
	}
	if r.Cluster && r.Master != "" {
		p.Add("master", "and cluster exclude each other: a server is one or the other")
	}
	if !r.Cluster && r.Master == "" && len(r.Addresses) > 1 {
		p.Add("addresses", "are several: say cluster: true, or whose master sentinels watch")
	}
	if r.Database < 0 || r.Cluster && r.Database != 0 {
		p.Add("database", "must be 0 or above, and 0 for a cluster")
	}
	if r.Username != "" && r.PasswordFile == "" {
		p.Add("passwordFile", "is required with username")
	}
	if r.PasswordFile != "" && r.TLS == nil && !r.InsecureCredentials {
		p.Add("tls", "is not set, and the password would travel in the clear: set it ({} for the system's authorities), or insecureCredentials")
	}
	if r.TLS != nil {
		p.Under("tls", r.TLS.Problems())
	}
	return p
}

// Source reads lengths. It is safe for concurrent use.
type Source struct{ client goredis.UniversalClient }

// New returns a source. It opens no connection.
func New(r *Server, bounds source.Bounds, log *zap.Logger, dial files.Dial) *Source {
	timeout := bounds.Timeout
	options := &goredis.UniversalOptions{
		Addrs: r.Addresses, IsClusterMode: r.Cluster, MasterName: r.Master, DB: r.Database,
		DisableIdentity: true, Protocol: 2,
		OnConnect: func(ctx context.Context, conn *goredis.Conn) error {
			err := conn.ClientSetName(ctx, "setpoint-samples").Err()
			if refused := goredis.Error(nil); errors.As(err, &refused) {
				return nil // for a name, which only people read, the user needs no right
			}
			return err
		},
		// A query is tried once: the next reconcile tries again.
		MaxRetries: -1, DialerRetries: 1,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		ContextTimeoutEnabled:    true,
		PoolSize:                 bounds.Concurrency,
		PipelinePoolSize:         -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if r.PasswordFile != "" {
		password := source.NewSecretFile("passwordFile", r.PasswordFile, log)
		options.CredentialsProviderContext = func(context.Context) (string, string, error) {
			text, err := password.Read()
			return r.Username, text, err
		}
	}
	if r.TLS != nil {
		dial = dial.TLS(r.TLS.Config)
	}
	dial = dial.Within(timeout)
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newConn(conn, bounds.MaxBytes), nil
	}
	return &Source{goredis.NewUniversalClient(options)}
}

// Close implements source.Backend.
func (b *Source) Close() { _ = b.client.Close() }

// maxKeyLength bounds keys and names of groups.
const maxKeyLength = 1024

// Check implements source.Backend.
func (b *Source) Check(q source.Query) typed.Problems {
	var p typed.Problems
	kinds := 0
	for _, field := range []struct{ name, key string }{{"list", q.List}, {"sortedSet", q.SortedSet}, {"stream", q.Stream}} {
		if field.key != "" {
			kinds++
			source.Required(&p, field.name, field.key, maxKeyLength)
		}
	}
	if kinds != 1 {
		p.Add("", "must have exactly one of list, sortedSet and stream")
	}
	if q.Stream != "" {
		source.Required(&p, "group", q.Group, maxKeyLength)
	} else if q.Group != "" || q.Pending {
		p.Add("stream", "is required with group and pending")
	}
	for _, field := range []struct{ name, score string }{{"minScore", q.MinScore}, {"maxScore", q.MaxScore}} {
		if field.score == "" {
			continue
		}
		if q.SortedSet == "" {
			p.Add(field.name, "applies to a sortedSet only")
		}
		if n, err := strconv.ParseFloat(strings.TrimPrefix(field.score, "("), 64); err != nil || math.IsNaN(n) {
			p.Add(field.name, "must be a number, -inf or +inf; with ( before it the score itself is left out")
		}
	}
	if q.EmptyIsZero {
		p.Add("emptyIsZero", "does not apply here: Redis deletes empty lists and sets, so a missing one has length 0, and a stream without the group is an error")
	}
	return p
}

// Request implements source.Backend.
func (b *Source) Request(q source.Query) string {
	switch {
	case q.List != "":
		return "LLEN " + q.List
	case q.SortedSet != "":
		lowest, highest := scores(q)
		return "ZCOUNT " + strconv.Quote(lowest) + " " + strconv.Quote(highest) + " " + q.SortedSet
	}
	return "XINFO GROUPS " + q.Stream // for all its groups
}

// scores returns the score bounds of a sorted set's members that count.
func scores(q source.Query) (lowest, highest string) {
	lowest, highest = "-inf", "+inf"
	if q.MinScore != "" {
		lowest = q.MinScore
	}
	if q.MaxScore != "" {
		highest = q.MaxScore
	}
	return lowest, highest
}

// reading is an answer of Redis: a length, or the groups of a stream.
type reading struct {
	length int64
	groups []streamGroup
	at     time.Time
}

// Ask implements source.Backend.
func (b *Source) Ask(ctx context.Context, q source.Query) (any, error) {
	var (
		r   reading
		err error
	)
	switch {
	case q.List != "":
		r.length, err = b.client.LLen(ctx, q.List).Result()
	case q.SortedSet != "":
		lowest, highest := scores(q)
		if lowest == "-inf" && highest == "+inf" {
			r.length, err = b.client.ZCard(ctx, q.SortedSet).Result()
		} else {
			r.length, err = b.client.ZCount(ctx, q.SortedSet, lowest, highest).Result()
		}
	default:
		// The driver's own command returns 0 for a lag that an old Redis does not report.
		command := goredis.NewCmd(ctx, "XINFO", "GROUPS", q.Stream)
		command.SetFirstKeyPos(2)
		_ = b.client.Process(ctx, command)
		var answer any
		if answer, err = command.Result(); err == nil {
			r.groups, err = parseGroups(answer)
		}
	}
	if err != nil {
		return nil, failureOf(err)
	}
	r.at = time.Now()
	return r, nil
}

// failureOf converts an error of the driver. It quotes only the first word of the server's
// text: the error for an unknown command contains the arguments, and those of AUTH are the
// password.
func failureOf(err error) error {
	var (
		own  *source.Failure
		said goredis.Error
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, goredis.ErrPoolTimeout):
		return source.Failed(source.Timeout, "no connection in time")
	case errors.As(err, &said):
		for _, hint := range hints {
			if strings.HasPrefix(said.Error()+" ", hint.begins+" ") {
				code, _, _ := strings.Cut(hint.begins, " ")
				return source.Failed(source.Refused, "it answered %s: %s", code, hint.text)
			}
		}
		return source.Failed(source.Refused, "it answered with an error")
	}
	return err
}

// hints are what answers of Redis mean, by how they begin; the first one holds.
var hints = []struct{ begins, text string }{
	{"WRONGTYPE", "the key has another type"},
	{"NOPERM", "its user lacks the permission: it needs LLEN, ZCARD, ZCOUNT and XINFO on the key, and CLUSTER SLOTS of a Cluster"},
	{"NOAUTH", "it requires a password: set passwordFile"},
	{"WRONGPASS", "check username and passwordFile"},
	{"LOADING", "it is starting"},
	{"MOVED", "it is a node of a Cluster, and the key is on another one: set cluster to true"},
	{"CLUSTERDOWN", "its Cluster has too few nodes"},
	{"MASTERDOWN", "it is a replica without its master"},
	{"BUSY", "a script of somebody else keeps it busy"},
	{"ERR no such key", "there is no stream at the key"},
	{"ERR DB index", "it has no such database: check database"},
	{"ERR max number of clients", "it takes no more connections"},
	{"ERR unknown command", "it does not know a command that it was sent: is it a Redis, and are LLEN, ZCARD, ZCOUNT and XINFO not renamed?"},
}

// streamGroup is a consumer group in XINFO GROUPS.
type streamGroup struct {
	name string
	// lag is the number of entries still to be delivered; nil: Redis does not know, for example
	// after entries ahead of the group were deleted, or if the group was created amid the
	// stream.
	lag *int64
	// tellsLag is false before Redis 7.
	tellsLag bool
	// pending is the number of entries delivered and not acknowledged.
	pending int64
}

var errGroups = source.Failed(source.Unusable, "the answer is not what XINFO GROUPS answers")

// parseGroups parses an answer of XINFO GROUPS, in either protocol.
func parseGroups(answer any) ([]streamGroup, error) {
	list, ok := answer.([]any)
	if !ok {
		return nil, errGroups
	}
	groups := make([]streamGroup, len(list))
	for i, from := range list {
		var fields []any // alternating names and values
		switch from := from.(type) {
		case []any:
			fields = from
		case map[any]any:
			for name, v := range from {
				fields = append(fields, name, v)
			}
		}
		for ; len(fields) >= 2; fields = fields[2:] {
			number, isNumber := fields[1].(int64)
			switch fields[0] {
			case "name":
				groups[i].name, _ = fields[1].(string)
			case "pending":
				groups[i].pending = number
				if !isNumber {
					return nil, errGroups
				}
			case "lag":
				groups[i].tellsLag = true
				if isNumber {
					groups[i].lag = &number
				}
			}
		}
		if groups[i].name == "" {
			return nil, errGroups
		}
	}
	return groups, nil
}

// Values implements source.Backend.
func (b *Source) Values(q source.Query, answer any) ([]source.Value, error) {
	r := answer.(reading)
	length := r.length
	if q.Stream != "" {
		i := slices.IndexFunc(r.groups, func(g streamGroup) bool { return g.name == q.Group })
		if i < 0 {
			return nil, source.Failed(source.Invalid, "the stream has no consumer group of that name")
		}
		switch g := r.groups[i]; {
		case !g.tellsLag:
			return nil, source.Failed(source.Invalid, "it reports no lag: that needs Redis 7.0 or later")
		case g.lag == nil:
			return nil, source.Failed(source.Invalid, "it does not know the group's lag: unread entries were deleted, or the group was created amid the stream; it knows the lag again when the group has passed that point")
		case q.Pending:
			length = *g.lag + g.pending
		default:
			length = *g.lag
		}
	}
	v := source.Value{Sample: source.Sample{Timestamp: r.at, Value: *resource.NewQuantity(length, resource.DecimalSI)}}
	switch {
	case length < 0:
		v.Err = source.ErrNegative
	case length > math.MaxInt64/1000:
		v.Err = source.ErrTooLarge
	}
	return []source.Value{v}, nil
}
