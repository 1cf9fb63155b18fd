package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/money"
)

// TestPrices: an alias has the price of its model, a tag that Ollama adds makes no difference, and of several prices
// that fit the longest counts.
func TestPrices(t *testing.T) {
	p := newPlace(t)
	p.write(userEnv, `QQ_SERVER_lab=openai http://127.0.0.1:1/v1
QQ_ALIAS_fast=lab:small
QQ_PRICES="fast=1/2/0.5,lab:*=3/4 ollama:qwen3=0/0 ollama:gem*=0.0001/0.0002"`)
	c, err := p.load(nil)
	require.NoError(t, err)
	for model, want := range map[string]string{"lab:small": "1/2/0.5", "lab:smaller": "3/4",
		"ollama:qwen3:latest": "0/0", "ollama:qwen3": "0/0", "ollama:gemma:2b": "0.0001/0.0002"} {
		price, err := money.ParsePrice(want)
		require.NoError(t, err)
		got, ok := c.Price(model)
		assert.True(t, ok, model)
		assert.Equal(t, price, got, model)
	}
	for _, model := range []string{"openai:gpt-5", "ollama:qwen3:4b", "extract", "auto", ""} {
		_, ok := c.Price(model)
		assert.False(t, ok, model)
	}
	p.write(userEnv, "QQ_PRICES=none\nQQ_MAX_COST=2.50")
	c, err = p.load(nil)
	require.NoError(t, err)
	assert.Empty(t, c.Prices)
	assert.Equal(t, "2.5", c.MaxCost.String())
}

func TestWrongPrices(t *testing.T) {
	for value, want := range map[string]string{
		"openai:gpt-5":                    `"openai:gpt-5" is no price of a model`,
		"=1/2":                            `"=1/2" is no price of a model`,
		"openai:*-5=1/2":                  `"openai:*-5" has a * that is not at its end`,
		"openai:gpt=1/2 openai:gpt=1/3":   "openai:gpt has two prices",
		"ollama:q=1/2,ollama:q:latest=1/": `the price of ollama:q:latest: "" is no number such as 2.5`,
		"openai=1/2":                      "it names no model of openai",
		"auto=1/2":                        `"auto" is no model with a price`,
		"open*=1/2":                       "it is no model that qq knows",
		"openai:gpt=1,25/10":              `the price of openai:gpt: "1" is no price`,
	} {
		p := newPlace(t)
		p.write(userEnv, "QQ_PRICES=\""+value+"\"\n")
		_, err := p.load(nil)
		assert.ErrorContains(t, err, want, value)
	}
}

// TestPricesOfACheckout: prices and a higher limit count only if the checkout is trusted; a lower limit counts.
func TestPricesOfACheckout(t *testing.T) {
	p := newPlace(t)
	p.write(userEnv, "QQ_PRICES=openai:*=1/2\nQQ_MAX_COST=2\n")
	p.write("work/.env", "QQ_PRICES=openai:*=0/0\nQQ_MAX_COST=0\n")
	c, err := p.load(nil)
	require.NoError(t, err)
	price, _ := c.Price("openai:gpt-5")
	assert.Equal(t, money.Price{In: 1_000_000, Out: 2_000_000, Cached: 1_000_000, Written: 1_000_000}, price)
	assert.Equal(t, "2", c.MaxCost.String(), "0 is no limit")
	assert.ElementsMatch(t, []string{"QQ_PRICES", "QQ_MAX_COST"}, names(c))
	c, err = c.Trust()
	require.NoError(t, err)
	price, _ = c.Price("openai:gpt-5")
	assert.Zero(t, price)
	p.write("work/.env", "QQ_MAX_COST=0.5\n")
	c, err = p.load(nil)
	require.NoError(t, err)
	assert.Equal(t, "0.5", c.MaxCost.String())
}
