//go:build unix

package samples

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// fakeRedis answers every command outside of the driver's handshake with a raw text, and
// continues without end if the text ends with an ellipsis.
func fakeRedis(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveRedis(conn, answer)
		}
	}()
	return listener.Addr().String()
}

func serveRedis(conn net.Conn, answer string) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var words int
		_, _ = fmt.Sscanf(lines.Text(), "*%d", &words)
		command := ""
		for i := range words {
			lines.Scan() // its length
			if lines.Scan(); i == 0 {
				command = strings.ToUpper(lines.Text())
			}
		}
		switch command {
		case "HELLO":
			_, _ = conn.Write([]byte("-ERR unknown command\r\n"))
		case "LLEN", "XINFO":
			text, endless := strings.CutSuffix(answer, "…")
			_, err := conn.Write([]byte(text))
			for endless && err == nil {
				_, err = conn.Write([]byte(strings.Repeat("x", 4096)))
			}
		default:
			_, _ = conn.Write([]byte("+OK\r\n"))
		}
	}
}

// A Redis' announcements are bounded before the driver allocates memory for them.
func TestAnswersOfARedisAreBounded(t *testing.T) {
	t.Parallel()
	group := "*4\r\n$4\r\nname\r\n$1\r\ng\r\n$3\r\nlag\r\n:7\r\n"
	for _, c := range []struct {
		name, answer string
		query        Query
		outcome      Outcome // none: the value 7
	}{
		{"a number", ":7\r\n", Query{List: "q"}, ""},
		{"a group", "*1\r\n" + group, Query{Stream: "s", Group: "g"}, ""},
		{"hundreds of groups", "*500\r\n" + strings.Repeat(group, 500), Query{Stream: "s", Group: "g"}, ""},
		{"a list of two thousand million elements", "*2000000000\r\n", Query{Stream: "s", Group: "g"}, Unusable},
		{"that, with zeros before it", "*" + strings.Repeat("0", 40) + "2000000000\r\n", Query{Stream: "s", Group: "g"}, Unusable},
		{"lists in lists", strings.Repeat("*20000\r\n", 100_000), Query{Stream: "s", Group: "g"}, Unusable},
		{"a map of many", "%2000000000\r\n", Query{Stream: "s", Group: "g"}, Unusable},
		{"a text of two gigabytes", "$2000000000\r\n", Query{Stream: "s", Group: "g"}, Unusable},
		{"a text of two gigabytes in a list", "*1\r\n*2\r\n$4\r\nname\r\n$2000000000\r\n", Query{Stream: "s", Group: "g"}, Unusable},
		{"a line without end", "+…", Query{List: "q"}, Unusable},
		{"what is no Redis", "HTTP/1.1 400 s3cret\r\n", Query{List: "q"}, Unreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			set := redisSource(t, Redis{Addresses: []string{fakeRedis(t, c.answer)}})
			c.query.Source = "redis"
			got, err := set.Samples(t.Context(), c.query)
			if c.outcome == "" {
				if err != nil || len(got) != 1 || got[0].Value.String() != "7" {
					t.Fatalf("got %v, %v", values(got), err)
				}
				return
			}
			wantFailure(t, err, c.outcome, "")
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error quotes the answer: %v", err)
			}
		})
	}
}

// The bound applies to each answer, not to the connection.
func TestABoundOfAnswersIsOfEachOfThem(t *testing.T) {
	t.Parallel()
	set := redisSource(t, Redis{Addresses: []string{fakeRedis(t, ":7\r\n")}}, func(s *Source) { s.MaxBytes, s.Concurrency = 64, 1 })
	for range 100 {
		if _, err := set.Samples(t.Context(), Query{Source: "redis", List: "q"}); err != nil {
			t.Fatal(err)
		}
	}
}
