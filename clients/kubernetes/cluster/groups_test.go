package cluster

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	const pods = 10
	// reconcile lets n autoscalers request a reading and returns which of them get the list of
	// all.
	reconcile := func(c *groups, n, total int) string {
		out := ""
		for i := range n {
			key := autoscalerKey{"shop", fmt.Sprint(i)}
			if c.listsTogether("usage", key, pods, 0, func() int { return total }) {
				out += "a"
			} else {
				out += "."
			}
		}
		time.Sleep(15 * time.Second)
		return out
	}
	rules := map[string]func(t *testing.T, c *groups) (got, want string){
		"one asks alone, reconcile after reconcile": func(_ *testing.T, c *groups) (string, string) {
			return reconcile(c, 1, pods) + reconcile(c, 1, pods), ".."
		},
		"the second shares, and from the next reconcile on the first too": func(_ *testing.T, c *groups) (string, string) {
			return reconcile(c, 3, 30) + " " + reconcile(c, 3, 30), ".aa aaa"
		},
		"a quarter of all pods is enough": func(_ *testing.T, c *groups) (string, string) {
			return reconcile(c, 2, 80) + " " + reconcile(c, 2, 81), ".a .."
		},
		"the more ask the larger their part": func(_ *testing.T, c *groups) (string, string) {
			return reconcile(c, 5, 160), "...aa"
		},
		"and those of the reconcile before count as well": func(_ *testing.T, c *groups) (string, string) {
			return reconcile(c, 3, 120) + " " + reconcile(c, 3, 120), "..a aaa"
		},
		"nobody counts twice": func(_ *testing.T, c *groups) (string, string) {
			reconcile(c, 1, 100)
			for range 3 {
				c.listsTogether("usage", autoscalerKey{"shop", "0"}, pods, 0, func() int { return 100 })
			}
			return fmt.Sprint(c.listsTogether("usage", autoscalerKey{"shop", "1"}, pods, 0, func() int { return 100 })), "false"
		},
		"those that went are forgotten after a reconcile": func(_ *testing.T, c *groups) (string, string) {
			return reconcile(c, 2, 20) + " " + reconcile(c, 1, 20) + " " + reconcile(c, 1, 20), ".a a ."
		},
		"the same autoscaler asking again is no group": func(t *testing.T, c *groups) (string, string) {
			key := autoscalerKey{"shop", "web"}
			first := c.listsTogether("usage", key, pods, 0, func() int { return pods })
			second := c.listsTogether("usage", key, pods, 0, func() int { return pods })
			return fmt.Sprint(first, second), "false false"
		},
		"what was of no use is not tried for ten minutes": func(_ *testing.T, c *groups) (string, string) {
			out := reconcile(c, 2, 20)
			c.listFailed("usage")
			out += " " + reconcile(c, 2, 20)
			time.Sleep(10 * time.Minute)
			return out + " " + reconcile(c, 2, 20), ".a .. aa"
		},
		"pods are counted once a moment, however many ask": func(_ *testing.T, c *groups) (string, string) {
			counted := 0
			for i := range 50 {
				c.listsTogether("usage", autoscalerKey{"shop", fmt.Sprint(i)}, pods, 0, func() int { counted++; return 500 })
			}
			return fmt.Sprint(counted), "1"
		},
		"too many pods for one list": func(_ *testing.T, c *groups) (string, string) {
			out := ""
			for _, most := range []int{19, 20, 19} {
				for i := range 2 {
					out += fmt.Sprint(c.listsTogether("usage", autoscalerKey{"shop", fmt.Sprint(i)}, pods, most, func() int { return 20 }), " ")
				}
			}
			return out, "false false true true false false "
		},
		"groups that nobody belongs to are dropped": func(_ *testing.T, c *groups) (string, string) {
			reconcile(c, 2, 20)
			time.Sleep(2 * groupAge)
			c.listsTogether("other", autoscalerKey{}, 1, 0, func() int { return 1 })
			return fmt.Sprint(len(c.byKey)), "1"
		},
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if got, want := rule(t, newGroups(time.Second)); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}
