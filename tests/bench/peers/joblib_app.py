"""The smallest application around zndraw-joblib's router: a table of tokens, and SQLite in the file DATABASE names."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import OAuth2PasswordBearer
from sqlalchemy.ext.asyncio import async_sessionmaker
from zndraw_auth import Base, User, create_engine_for_url, current_active_user
from zndraw_joblib import ProblemException, problem_exception_handler, router
from zndraw_joblib.settings import JobLibSettings

TOKENS = {os.environ["TOKEN"]: User(id=uuid.uuid4(), email="bench@example.org", hashed_password="", is_superuser=True)}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    engine = create_engine_for_url(f"sqlite+aiosqlite:///{os.environ['DATABASE']}")
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    app.state.engine = engine
    app.state.session_maker = async_sessionmaker(engine, expire_on_commit=False)
    app.state.joblib_settings = JobLibSettings()
    yield
    await engine.dispose()


async def holder(token: Annotated[str, Depends(OAuth2PasswordBearer(tokenUrl="none"))]) -> User:
    """Return the user that a token belongs to."""
    if token not in TOKENS:
        raise HTTPException(401, "Unauthorized")
    return TOKENS[token]


app = FastAPI(lifespan=lifespan)
app.include_router(router)
app.add_exception_handler(ProblemException, problem_exception_handler)
app.dependency_overrides[current_active_user] = holder
