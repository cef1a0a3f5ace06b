package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/gateway"
	"github.com/spatialcells/spatialcells/node/torus"
)

// A player that logs in, walks ten metres east, says hello and leaves.
func Example() {
	key := []byte("the content of the development key's *.hs256 file")
	tokens := func(context.Context) (string, error) {
		claims := gateway.Claims{World: "genesis", Name: "Ada", Spawn: "100,100"}
		claims.Subject = "4711"
		return gateway.SignDevelopment(key, claims)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, []string{"127.0.0.1:8080"}, tokens, client.Options{Version: "example/1"})
	if err != nil {
		log.Print(err)
		return
	}
	defer c.Close()

	if err := c.Wait(ctx, func(m *client.Model) bool { return m.Own() != nil }); err != nil {
		log.Print(err)
		return
	}
	var east torus.Pos
	c.Do(func(m *client.Model, tick uint64) {
		me := m.At(m.Own(), tick)
		east = m.Grid.Add(me, 10, 0)
		fmt.Println("I am at", me, "and see", len(m.Entities)-1, "others")
	})
	if _, err := c.Say("hello"); err != nil {
		log.Print(err)
		return
	}
	number, err := c.Move(east)
	if err != nil {
		log.Print(err)
		return
	}
	_ = c.Wait(ctx, func(m *client.Model) bool { return m.Acked() >= number })
	_ = c.Logout(ctx)
}
