package recommender_test

import (
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/recommender/historytest"
)

func init() {
	recommender.AppendEncoded, recommender.Decode, recommender.RandomHistory = encoding.AppendHistory, encoding.DecodeHistory, historytest.Random
	recommender.NewDecode = func() func(b []byte) (recommender.History, error) { return new(encoding.Room).DecodeHistory }
}
