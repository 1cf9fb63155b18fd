package models

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"qq/internal/models/servers"
)

// Offer is a model that a server has and that can chat, as far as the server says. What is nil or zero, it does not
// say.
type Offer struct {
	Model
	ToolCalls *bool // it can call tools
	Size      int64 // bytes of its file
	created   time.Time
	chats     bool
}

// askedAtOnce is how many models of one Ollama server are looked up at the same time.
const askedAtOnce = 4

// Offers returns the models that the server has, the newest first. If ctx ends meanwhile, what is only known by
// asking for each model is missing.
func (c *Client) Offers(ctx context.Context) ([]Offer, error) {
	if c.server.Kind != servers.Ollama {
		return c.listedOffers(ctx)
	}
	tags, err := c.tags(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Offer, len(tags))
	seats := make(chan struct{}, askedAtOnce)
	var asked sync.WaitGroup
	for i := range tags {
		asked.Go(func() {
			seats <- struct{}{}
			defer func() { <-seats }()
			all[i] = c.tagged(ctx, tags[i])
		})
	}
	asked.Wait()
	return slices.DeleteFunc(all, func(o Offer) bool { return !o.chats }), nil
}

// tagged returns the model that an Ollama server lists as tag, with what the server says about it.
func (c *Client) tagged(ctx context.Context, tag tag) Offer {
	o, err := c.show(ctx, tag.Name)
	if err != nil { // it is listed all the same
		o = Offer{Model: c.named(tag.Name), chats: true}
		o.Remote, o.MaySee = tag.RemoteHost, true
	}
	o.Size, o.created = tag.Size, tag.ModifiedAt
	return o
}

// listedOffers is Offers for servers other than Ollama.
func (c *Client) listedOffers(ctx context.Context) ([]Offer, error) {
	all, err := c.catalog(ctx)
	if err != nil {
		return nil, err
	}
	var offers []Offer
	owner := ""
	for _, l := range all {
		if o := c.offer(l); o.chats {
			offers, owner = append(offers, o), l.Owner
		}
	}
	if len(offers) == 1 {
		c.addProps(ctx, &offers[0], owner)
	}
	slices.SortStableFunc(offers, func(a, b Offer) int { return b.created.Compare(a.created) })
	return offers, nil
}

// Look returns what the server says about the model of that name.
func (c *Client) Look(ctx context.Context, name string) (Offer, error) {
	if c.server.Kind != servers.Ollama {
		return c.look(ctx, name)
	}
	o, err := c.show(ctx, strings.TrimPrefix(name, "ollama:"))
	if err != nil {
		return Offer{}, c.withNames(ctx, err)
	}
	if tags, err := c.tags(ctx); err == nil {
		for _, tag := range tags {
			if tag.Name == o.Name || tag.Name == o.Name+":latest" {
				o.Size = tag.Size
			}
		}
	}
	return o, nil
}

// Best returns the offer to use if nobody names a model: the first one that calls tools, or else the first of which
// that is not known, or else the first. Models that the server only passes on are left out, and so are those that are
// not for chats by their name. ok is false if there is none.
func Best(offers []Offer) (best Offer, ok bool) {
	var may, first []Offer
	for _, o := range offers {
		switch {
		case o.Kind == servers.Ollama && o.Remote != "", o.ToolCalls == nil && servers.IsSpecial(o.Name):
		case o.ToolCalls != nil && *o.ToolCalls:
			return o, true
		case o.ToolCalls == nil:
			may = append(may, o)
		default:
			first = append(first, o)
		}
	}
	if all := append(may, first...); len(all) > 0 {
		return all[0], true
	}
	return Offer{}, false
}

// Seen returns whether the model sees images; nil if the server does not say.
func (o Offer) Seen() *bool {
	if o.MaySee {
		return nil
	}
	return known(o.Vision)
}

// named returns the model of that name, of which nothing else is known.
func (c *Client) named(name string) Model {
	m := Model{Kind: c.server.Kind, Server: c.server.Name, Host: c.server.URL, Name: name}
	if m.Server == servers.Ollama {
		m.Server = "" // see Model.Server
	}
	return m
}

// known returns a pointer to what a server says.
func known(yes bool) *bool { return &yes }
