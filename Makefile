# `make train` and `make test` do all the set-up on a fresh machine; they need Python 3.10 to 3.12 and make.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin

.PHONY: train test lint benchmark million kills clean

train: $(VENV)/.train
	$(BIN)/python -m core.train backend=torch_npu model=lenet5 cards=4 $(ARGS)

test: lint
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict core

# The longer forms of tests, and the figures of the README.
kills: $(VENV)/.test
	ANYCARD_KILLS=300 $(BIN)/python -m pytest tests/checkpoint -k kill $(ARGS)

benchmark: $(VENV)/.test
	$(BIN)/python -m benchmarks.compare $(ARGS)

million: $(VENV)/.test
	$(BIN)/python -m benchmarks.million $(ARGS)

$(VENV)/.train: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[torch,tensorboard]'
	touch $@

$(VENV)/.test: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[torch,tensorboard,dev]'
	touch $@ $(VENV)/.train

clean:
	rm -rf $(VENV) runs build *.egg-info .mypy_cache .ruff_cache .pytest_cache
